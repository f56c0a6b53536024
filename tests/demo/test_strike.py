from __future__ import annotations

import httpx
import pytest

from starter.demo.strike import effect_of


def raw(method: str, form: dict[str, str]) -> bytes:
    request = httpx.Request(method, "http://127.0.0.1/v1/payment_intents", data=form)
    head = "\r\n".join(f"{name}: {value}" for name, value in request.headers.items())
    return f"{method} /v1/payment_intents HTTP/1.1\r\n{head}\r\n\r\n".encode() + request.read()


def test_a_request_that_causes_an_effect_is_known_by_the_metadata_that_it_carries():
    assert effect_of(raw("POST", {"amount": "1", "metadata[effect_id]": "ef1-a"})) == "ef1-a"


@pytest.mark.parametrize("form", [{"amount": "1"}, {}])
def test_a_request_without_an_effect_meets_no_fault(form):
    assert effect_of(raw("POST", form)) is None


def test_a_question_meets_no_fault():
    assert effect_of(b"GET /v1/payment_intents?metadata[effect_id]=ef1-a HTTP/1.1\r\n\r\n") is None
