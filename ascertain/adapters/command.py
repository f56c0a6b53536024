"""The ``command`` adapter: a program makes a file, which is published under the effect's id.

::

    [kinds."video.transcode"]
    adapter = "command"

    [kinds."video.transcode".options]
    program = ["ffmpeg", "-progress", "pipe:1", "-i", "{input.source}", "-vf", "scale=-2:480", "{output}"]
    output = "video.mp4"
    progress = "^out_time=(.*)"
    publish = { url = "s3://videos", key = "{effect_id}.mp4", content_type = "video/mp4" }

The program is the deployment's and no shell reads it; a task gives values. Nothing counts before the file is
published, which the store allows once: whatever happens to the program or its worker earlier is "not done".
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import re
import tempfile
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Literal

from pydantic import AfterValidator, BeforeValidator, Field, JsonValue, StringConstraints

from ascertain.adapters import saying
from ascertain.adapters.bucket import Bucket, BucketForm
from ascertain.adapters.declaration import read
from ascertain.adapters.program import Program
from ascertain.adapters.template import (
    ABOUT_EFFECT,
    MissingValueError,
    Template,
    parse,
    scope_of,
)
from ascertain.contracts.finding import Absent, Found
from ascertain.contracts.semantics import LookupBy, Semantics
from ascertain.contracts.value import StrictValue, Value
from ascertain.errors import InvalidTask, MissingSecret
from ascertain.ports import FROZEN_MAX_BYTES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ascertain.contracts.effect import Effect
    from ascertain.contracts.finding import Finding
    from ascertain.contracts.outcome import Outcome
    from ascertain.ports import Call, Permit, Secrets

_OUTPUT: Final = "{output}"
# Stands for the path in frozen arguments; no value can hold it.
_MARK: Final = "\0output\0"
_AROUND: Final = timedelta(seconds=30)


def _argument(text: object) -> Template:
    if not isinstance(text, str):
        raise ValueError("text is expected here")  # noqa: TRY004 - pydantic reports ValueError
    return _about_effect(parse(text.replace(_OUTPUT, _MARK)))


def _about_effect(template: Template) -> Template:
    unknown = {found.root for found in template.references} - ABOUT_EFFECT
    if unknown:
        raise ValueError(f"{{{min(unknown)}}} is not known before it is done")
    return template


Argument = Annotated[Template, BeforeValidator(_argument)]


def _pattern(text: str) -> str:
    try:
        re.compile(text)
    except re.error as error:
        raise ValueError(f"no regular expression: {error}") from None
    return text


class PublishForm(BucketForm):
    """Where the file goes. To anything but a folder it is sent in one request, from memory."""

    key: Annotated[Template, AfterValidator(_about_effect)] = parse("{effect_id}")
    content_type: str = "application/octet-stream"
    timeout: timedelta = timedelta(minutes=5)
    max_bytes: Annotated[int, Field(ge=1)] = 512 << 20


class CommandOptions(StrictValue):
    """What a deployment says.

    Attributes:
        program: The program and its arguments; ``{output}`` is the path of the file to make.
        output: That file's name.
        environment: Besides ``PATH``; a value may be ``secret:NAME``.
        progress: A regular expression; what its first group finds in a line goes into the heartbeat.
        refused: Exit codes that mean no for good; all others but 0 mean "not done, try again".
        timeout: Of one run.
    """

    program: Annotated[tuple[Argument, ...], Field(min_length=1)]
    output: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_][A-Za-z0-9._-]{0,99}$")]
    publish: PublishForm
    environment: dict[str, str] = Field(default_factory=dict)
    progress: Annotated[str, AfterValidator(_pattern)] | None = None
    refused: tuple[Annotated[int, Field(ge=1, le=255)], ...] = ()
    timeout: timedelta = timedelta(hours=1)


class FrozenCommand(Value):
    """One run, ready but for the path of its file and its secrets."""

    version: Literal[1] = 1
    arguments: tuple[str, ...]
    key: str


def create(kind: str, options: Mapping[str, JsonValue], secrets: Secrets) -> CommandAdapter:
    """Build the adapter of one kind from its options.

    Raises:
        InvalidSettings: An option is wrong; the message names its key.
    """
    chosen = read(CommandOptions, kind, options)
    return CommandAdapter(chosen, Bucket(kind, chosen.publish, secrets), secrets)


class CommandAdapter:
    """Runs one program and publishes what it made."""

    def __init__(self, options: CommandOptions, bucket: Bucket, secrets: Secrets) -> None:
        self._options = options
        self._bucket = bucket
        self._secrets = secrets

    @property
    def semantics(self) -> Semantics:
        """The file can be found as soon as it is published."""
        options = self._options
        return Semantics(
            lookup=LookupBy.KEY,
            in_flight_max=options.publish.timeout,
            max_duration=options.timeout + options.publish.timeout + _AROUND,
        )

    def prepare(self, effect: Effect) -> bytes:
        """Freeze the program's arguments and the file's name.

        Raises:
            InvalidTask: A value is missing, is no argument, or would be read as an option.
        """
        scope = scope_of(effect, effect.input)
        try:
            given = [one for one in self._options.program if not one.left_out(scope)]
            arguments = tuple(_filled(one, scope) for one in given)
            key = self._options.publish.key.text(scope, in_address=True)
        except MissingValueError as error:
            raise InvalidTask(f"{effect.effect_id}: {error}") from error
        frozen = FrozenCommand(arguments=arguments, key=key).model_dump_json().encode()
        if len(frozen) > FROZEN_MAX_BYTES:
            raise InvalidTask(f"the arguments are {len(frozen)} bytes; at most {FROZEN_MAX_BYTES}")
        return frozen

    async def perform(self, call: Call, permit: Permit) -> Outcome:
        """Run the program, and publish its file under a renewed permit.

        Raises:
            PermitLost: The file was not published.
        """
        frozen = FrozenCommand.model_validate_json(call.frozen)
        try:
            environment = self._environment()
        except MissingSecret as error:
            return saying.unsent(error.code, str(error))
        with tempfile.TemporaryDirectory(prefix="ascertain-", ignore_cleanup_errors=True) as place:
            folder = Path(place)
            failed = await self._run(frozen, folder, environment, permit)
            if failed is not None:
                return failed
            return await self._publish(call, frozen, folder / self._options.output, permit)

    async def lookup(self, call: Call, *, within: timedelta) -> Finding:
        """Look for the file by its name.

        Raises:
            LookupDown: The store cannot be read now.
        """
        del within  # bounded by the store's own time-out
        frozen = FrozenCommand.model_validate_json(call.frozen)
        kept = await self._bucket.find(frozen.key)
        if kept is None:
            return Absent(detail=f"{frozen.key} is not published")
        return kept.not_of(call.effect.effect_id) or Found(receipt=kept.receipt())

    async def aclose(self) -> None:
        """Programs end with their attempts."""

    async def _run(
        self, frozen: FrozenCommand, folder: Path, environment: Mapping[str, str], permit: Permit
    ) -> Outcome | None:
        """Run it; what came of it if there is no file to publish."""
        options, pattern = self._options, re.compile(self._options.progress or r"(?!)")

        def on_line(line: str) -> None:
            found = pattern.search(line)
            if found is not None:
                permit.heartbeat({"progress": found[1] if found.re.groups else found[0]})

        path = str(folder / options.output)
        program = Program(
            [argument.replace(_MARK, path) for argument in frozen.arguments],
            folder=folder,
            environment=environment,
            on_line=on_line,
        )
        try:
            async with asyncio.timeout(options.timeout.total_seconds()):
                code = await program.run()
        except TimeoutError:
            limit = f"{options.timeout.total_seconds():g} s"
            return saying.unsent("too_long", f"ended after {limit}; nothing was published")
        if code == 0:
            return None
        said = _without(program.tail, self._revealed(environment))
        if code in options.refused:
            return saying.refused(f"exit_{code}", f"the program refused: {said}")
        return saying.unsent(f"exit_{code}", f"the program failed; nothing was published: {said}")

    async def _publish(
        self, call: Call, frozen: FrozenCommand, file: Path, permit: Permit
    ) -> Outcome:
        size, sha256 = await asyncio.to_thread(_measured, file)
        if not size:
            return saying.unsent("no_output", "the program made no file, and said that all is well")
        form = self._options.publish
        if size > form.max_bytes and not form.url.startswith("file:"):
            return saying.refused(
                "too_large", f"the file is {size} bytes; at most {form.max_bytes} are published"
            )

        async def permitted() -> None:
            await permit.renew()
            permit.check()

        return await self._bucket.put(
            frozen.key,
            file,
            effect_id=call.effect.effect_id,
            content_type=form.content_type,
            sha256=sha256,
            permitted=permitted,
        )

    def _environment(self) -> dict[str, str]:
        given = {"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C.UTF-8"}
        for name, value in self._options.environment.items():
            secret = value.startswith("secret:")
            given[name] = self._secrets.reveal(value.removeprefix("secret:")) if secret else value
        return given

    def _revealed(self, environment: Mapping[str, str]) -> list[str]:
        named = self._options.environment.items()
        return [environment[name] for name, value in named if value.startswith("secret:")]


def _filled(argument: Template, scope: Mapping[str, JsonValue]) -> str:
    text = argument.text(scope)
    if "\0" in text.replace(_MARK, ""):
        raise MissingValueError("a value holds a NUL character")
    if text.startswith("-") and not isinstance(argument.parts[0], str):
        raise MissingValueError(f"{text[:20]!r} would be read as an option of the program")
    return text


def _measured(file: Path) -> tuple[int, str]:
    if not file.is_file():
        return 0, ""
    with file.open("rb") as content:
        return file.stat().st_size, hashlib.file_digest(content, "sha256").hexdigest()


def _without(text: str, secrets: list[str]) -> str:
    for secret in secrets:
        text = text.replace(secret, "[secret]") if secret else text
    return text
