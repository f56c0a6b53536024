from __future__ import annotations

import json
from zipfile import ZipFile

from tests.cli.test_tasks import quarantined

NO_EFFECT = '{"effect": {"frozen": ""}, "audit": []}'


async def test_a_snapshot_is_created_verified_and_shown(deployed, tmp_path):
    task_id = await quarantined(deployed, partition="snap")
    file = tmp_path / "snap.zip"
    made = await deployed.cli("snapshot", "create", str(file), "--partition", "snap", "--json")
    assert made.document["counts"]["effects"] == 1
    said = await deployed.cli("snapshot", "verify", str(file))
    assert "is what was written: 1 tasks, 1 effects" in said.out
    shown = await deployed.cli("snapshot", "show", str(file))
    assert "of everything in partition snap" in shown.out
    assert "QUARANTINED" in shown.out
    again = (await deployed.cli("snapshot", "show", str(file), "--json")).document
    assert again["content"] == made.document["content"]
    assert again["effects"][0]["state"] == "QUARANTINED"
    assert task_id not in json.dumps(again)
    kept = file.read_bytes()
    given = ("snapshot", "create", str(file), "--partition", "nobody-has-this")
    refused = await deployed.cli(*given, code=2)
    assert f"{file} is there already: name another FILE, or say --force" in refused.sentence
    assert file.read_bytes() == kept
    replaced = await deployed.cli(*given, "--force")
    assert "Nothing of partition nobody-has-this is known" in replaced.err
    assert file.read_bytes() != kept


async def test_a_file_that_cannot_be_written_is_told_alike_by_every_command(deployed, tmp_path):
    task_id = await quarantined(deployed, partition="snap-w")
    for file, why in ((tmp_path / "no" / "x", "No such file"), (tmp_path, "Is a directory")):
        for words in (("snapshot", "create", str(file)), ("report", task_id, "--out", str(file))):
            told = (await deployed.cli(*words, "--force", code=2)).sentence
            assert str(file) in told
            assert why in told
    assert list(tmp_path.iterdir()) == []


async def test_a_snapshot_needs_no_server_to_be_checked_and_a_damaged_one_is_told(cli, tmp_path):
    file = tmp_path / "damaged.zip"
    file.write_bytes(b"PK\x03\x04 and so on")
    answer = await cli("snapshot", "verify", str(file), code=8)
    assert "is no whole archive" in answer.sentence
    whole = {
        "taken_at": "2026-03-04T03:00:00Z",
        "namespace": "default",
        "scope": {},
        "counts": {},
        "files": {},
        "content": "",
    }
    for files, said in (
        ({"manifest.json": "{}"}, "its manifest.json cannot be read: taken_at: is missing; "),
        ({"manifest.json": "half"}, "its manifest.json cannot be read: value: Invalid JSON"),
        ({"manifest.json": json.dumps(whole)}, "effects.jsonl is missing"),
        (
            {"manifest.json": json.dumps(whole), "effects.jsonl": NO_EFFECT},
            "a line of effects.jsonl is no effect: effect_id: is missing; ",
        ),
    ):
        with ZipFile(file, "w") as archive:
            for name, content in files.items():
                archive.writestr(name, content)
        answer = await cli("snapshot", "show", str(file), code=8)
        assert answer.sentence.startswith(said)
        assert "pydantic" not in answer.sentence
    missing = await cli("snapshot", "show", str(tmp_path / "nowhere.zip"), code=2)
    assert "there is no file" in missing.sentence
