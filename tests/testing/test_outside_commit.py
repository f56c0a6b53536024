"""What happens outside and what the client hears of it are two different things."""

from __future__ import annotations

import asyncio
import hashlib
import json

import httpx
import pytest

from ascertain.testing.knob import (
    Answer,
    CutOff,
    Drop,
    Knobs,
    Reply,
    Silence,
    SubmitKnobs,
)
from ascertain.testing.outside import Outside
from tests.testing.raw_http import exchange, post

BODY = b'{"reference": "inv-1", "amount": 1999, "payee": "Kunze GmbH"}'


def behave(outside: Outside, submit: SubmitKnobs) -> None:
    outside.rules.knobs = Knobs(submit=submit)


async def test_a_plain_submit_commits_one_fact_and_answers_with_it(
    outside: Outside, http: httpx.AsyncClient
) -> None:
    reply = await http.post("/facts", content=BODY, headers={"Idempotency-Key": "k-1"})

    (fact,) = outside.books.facts_of("inv-1")
    assert reply.status_code == 201
    assert reply.headers["Location"] == f"/facts/{fact.id}"
    assert reply.json()["id"] == fact.id
    assert reply.json()["payee"] == "Kunze GmbH"
    assert (fact.key, fact.amount, fact.status) == ("k-1", 1999, "succeeded")


async def test_the_books_keep_what_each_submit_was(
    outside: Outside, http: httpx.AsyncClient
) -> None:
    trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
    headers = {"Idempotency-Key": "k-1", "traceparent": trace, "Authorization": "Bearer sk_secret"}
    await http.post("/facts", content=BODY, headers=headers)
    await http.post("/facts", content=BODY, headers={"Idempotency-Key": "k-1"})
    await http.post("/facts", content=BODY, headers={"Idempotency-Key": "k-2"})

    first, second, other = outside.books.submits
    assert (first.key, first.reference, first.size_bytes) == ("k-1", "inv-1", len(BODY))
    assert first.sha256 == hashlib.sha256(BODY).hexdigest()
    assert first.headers["traceparent"] == trace
    assert [first.attempt, second.attempt, other.attempt] == [1, 2, 1]
    assert first.peer_port == second.peer_port
    assert "sk_secret" not in first.model_dump_json()


async def test_a_fact_commits_although_the_client_went_away(outside: Outside) -> None:
    behave(outside, SubmitKnobs(commit=0.1))
    _, writer = await asyncio.open_connection("127.0.0.1", outside.port)
    writer.write(post(BODY))
    await writer.drain()
    await outside.books.wait_for("submit", key="k-1")
    assert outside.books.facts_of("inv-1") == []
    writer.transport.abort()

    await outside.books.wait_for("fact", key="k-1")
    assert len(outside.books.facts_of("inv-1")) == 1


async def test_the_reply_of_a_late_commit_comes_after_the_fact(
    outside: Outside, http: httpx.AsyncClient
) -> None:
    behave(outside, SubmitKnobs(commit=0.1))
    reply = await http.post("/facts", content=BODY)

    (fact,) = outside.books.facts_of("inv-1")
    assert reply.json()["id"] == fact.id
    assert outside.books.submits[0].ruling == "scheduled"


async def test_a_success_can_be_reported_for_nothing(
    outside: Outside, http: httpx.AsyncClient
) -> None:
    behave(outside, SubmitKnobs(commit="never"))
    reply = await http.post("/facts", content=BODY)

    assert reply.status_code == 201
    assert outside.books.facts == []
    assert outside.books.submits[0].ruling == "ignored"


async def test_a_reset_after_the_commit_gives_no_byte_and_one_fact(outside: Outside) -> None:
    behave(outside, SubmitKnobs(reply=Drop(how="reset")))
    reply = await exchange(outside.port, post(BODY))

    assert reply.received == b""
    assert reply.was_reset
    assert len(outside.books.facts_of("inv-1")) == 1


async def test_a_reset_of_a_reused_connection_looks_the_same_whether_it_committed_or_not(
    outside: Outside, http: httpx.AsyncClient
) -> None:
    errors: list[str] = []
    for commit in ("never", 0):
        behave(outside, SubmitKnobs())
        await http.post("/facts", json={"reference": "warm-up"})
        behave(outside, SubmitKnobs(commit=commit, reply=Drop()))
        with pytest.raises(httpx.ReadError) as caught:
            await http.post("/facts", json={"reference": f"commit-{commit}"})
        errors.append(repr(caught.value))

    ports = [submit.peer_port for submit in outside.books.submits]
    assert ports[0] == ports[1]
    assert ports[2] == ports[3]
    assert errors[0] == errors[1]
    assert outside.books.facts_of("commit-never") == []
    assert len(outside.books.facts_of("commit-0")) == 1


async def test_a_close_without_a_reply_is_no_reset(outside: Outside) -> None:
    behave(outside, SubmitKnobs(reply=Drop(how="close")))
    reply = await exchange(outside.port, post(BODY))

    assert reply.received == b""
    assert not reply.was_reset
    assert len(outside.books.facts_of("inv-1")) == 1


async def test_a_reset_while_the_body_is_sent_discards_the_request(outside: Outside) -> None:
    behave(outside, SubmitKnobs(reply=Drop(in_body=True)))
    reply = await exchange(outside.port, post(BODY[:10], claims_bytes=1_000_000))

    assert reply.received == b""
    assert reply.was_reset
    assert outside.books.facts == []
    assert [submit.ruling for submit in outside.books.submits] == ["discarded"]


async def test_silence_gives_no_byte_and_ends_without_a_reply(outside: Outside) -> None:
    behave(outside, SubmitKnobs(reply=Silence(seconds=0.1)))
    reply = await exchange(outside.port, post(BODY))

    assert reply.received == b""
    assert len(outside.books.facts_of("inv-1")) == 1


async def test_a_client_that_cannot_wait_through_a_silence_leaves_a_fact(
    outside: Outside, http: httpx.AsyncClient
) -> None:
    behave(outside, SubmitKnobs(commit=0.3, reply=Silence(seconds=600)))
    with pytest.raises(httpx.ReadTimeout):
        await http.post("/facts", content=BODY, timeout=httpx.Timeout(20, read=0.1))

    await outside.books.wait_for("fact", reference="inv-1")
    assert len(outside.books.submits) == 1


@pytest.mark.parametrize("how", ["close", "reset"])
async def test_a_cut_off_body_has_its_whole_length_announced(outside: Outside, how: str) -> None:
    behave(
        outside, SubmitKnobs(reply=CutOff(keep_bytes=7, how="close" if how == "close" else "reset"))
    )
    reply = await exchange(outside.port, post(BODY))

    head, _, body = reply.received.partition(b"\r\n\r\n")
    announced = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
    assert head.startswith(b"HTTP/1.1 201 ")
    assert len(body) == 7
    assert announced > 7
    assert reply.was_reset == (how == "reset")
    assert len(outside.books.facts_of("inv-1")) == 1


async def test_a_gateway_can_give_up_while_the_work_goes_on(
    outside: Outside, http: httpx.AsyncClient
) -> None:
    gave_up = Answer(status=504, text="<html>gateway</html>", headers={"Content-Type": "text/html"})
    behave(outside, SubmitKnobs(commit=0.2, reply=gave_up))
    reply = await http.post("/facts", content=BODY, headers={"Idempotency-Key": "k-1"})

    assert (reply.status_code, reply.text) == (504, "<html>gateway</html>")
    await outside.books.wait_for("fact", key="k-1")
    assert len(outside.books.facts) == 1


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        (Answer(text=""), (201, b"")),
        (Answer(status=503), (503, b"")),
        (Answer(status=200, body={"error": "disk"}), (200, b'{"error": "disk"}')),
        (Answer(text="caf\xe9", encoding="latin-1"), (201, b"caf\xe9")),
    ],
)
async def test_a_reply_says_what_it_is_told_to_say(
    outside: Outside, http: httpx.AsyncClient, reply: Reply, expected: tuple[int, bytes]
) -> None:
    behave(outside, SubmitKnobs(reply=reply))
    answer = await http.post("/facts", content=BODY)

    assert (answer.status_code, answer.content) == expected
    assert len(outside.books.facts_of("inv-1")) == 1


async def test_a_true_reply_can_be_megabytes_long(
    outside: Outside, http: httpx.AsyncClient
) -> None:
    behave(outside, SubmitKnobs(reply=Answer(pad_bytes=5_000_000)))
    reply = await http.post("/facts", content=BODY)

    assert reply.json()["id"] == outside.books.facts[0].id
    assert len(reply.content) > 5_000_000


@pytest.mark.parametrize(
    "body", [b"not json", b"[1]", json.dumps({"amount": float("nan")}).encode()]
)
async def test_a_body_that_is_no_json_object_changes_nothing(
    outside: Outside, http: httpx.AsyncClient, body: bytes
) -> None:
    reply = await http.post("/facts", content=body)

    assert reply.status_code == 400
    assert outside.books.facts == []
    assert outside.books.submits[0].ruling == "invalid"


async def test_an_undo_is_a_fact_of_its_own(outside: Outside, http: httpx.AsyncClient) -> None:
    made = (await http.post("/facts", content=BODY)).json()
    undone = await http.request(
        "DELETE",
        f"/facts/{made['id']}",
        json={"reference": "inv-1~undo"},
        headers={"Idempotency-Key": "k-undo"},
    )

    (fact,) = outside.books.facts_of("inv-1~undo")
    assert (undone.status_code, undone.json()["deletes"]) == (200, made["id"])
    assert (fact.type, fact.key, fact.deletes) == ("deleted", "k-undo", made["id"])
    assert len(outside.books.facts_of("inv-1")) == 1


async def test_an_undo_of_nothing_is_refused(outside: Outside, http: httpx.AsyncClient) -> None:
    reply = await http.delete("/facts/fact-000009")

    assert reply.status_code == 404
    assert outside.books.submits[0].ruling == "missing"
    assert outside.books.facts == []
