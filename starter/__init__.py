"""What starts things: the development stack and whatever hands tasks in."""
