"""Replies are remembered whole, for one caller, readable by nobody else."""

from __future__ import annotations

import asyncio
import logging
import stat
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from segue.conversation.blocks import Media, Origin, Reasoning, Seal, Text, ToolCall, ToolResult
from segue.conversation.message import Message, model, tool, user
from segue.errors import JournalError
from segue.gateway.memory.fingerprints import Fingerprint, fingerprint_of
from segue.gateway.memory.installation_key import InstallationKey, read_key
from segue.gateway.memory.memory import Memory, is_capsule
from segue.gateway.memory.originals import recall_originals
from segue.gateway.memory.replies import RememberedReply, decode_reply, encode_reply
from segue.gateway.memory.sqlite_store import SQLiteMemoryStore
from segue.gateway.memory.store import ConversationInfo, MemoryRecord

START = fingerprint_of(())
KEY = InstallationKey(b"k" * 32)
ORIGIN = Origin("anthropic", "anthropic", "https://api.example", "some-model")
SEAL = Seal(ORIGIN, "c2VhbA==", made_under="abc")
REPLY = model(
    Reasoning("think", SEAL),
    Text("Let me look."),
    ToolCall("c4", "read", {"path": "a"}, '{"path":"a"}', "toolu_native_a", Seal(ORIGIN, "x", "thought")),
    ToolCall("c5", "read", {"path": "b"}, '{"path":"b"}', "toolu_native_b"),
    origin=ORIGIN,
)
REMEMBERED = RememberedReply(
    REPLY, "anthropic/some-model", {"call_A": "c4", "call_B": "c5"}, conversation="abcd2345"
)
ASK = user("Read both.")


def memory(store: SQLiteMemoryStore | None = None) -> Memory:
    return Memory(store or SQLiteMemoryStore(), KEY)


def returned(*blocks: Text | ToolCall | Reasoning) -> list[Message]:
    return [ASK, model(*blocks), tool(ToolResult("c0", "read", "A")), user("Go on")]


def shown(number: int, native_id: str) -> ToolCall:
    return ToolCall(f"c{number}", "read", {"path": "?"}, native_id=native_id)


def test_a_reply_is_the_same_after_it_was_written_and_read() -> None:
    odd = RememberedReply(model(Text("lone \ud800"), ToolCall("c0", "x", {"a": float("nan")})), "a/b")
    assert decode_reply(encode_reply(REMEMBERED)) == REMEMBERED
    assert decode_reply(encode_reply(odd)).message.text == "lone \ud800"


class _MovedRows(SQLiteMemoryStore):
    """A store in which somebody has exchanged what is in the rows of two callers, key by key."""

    def __init__(self, moved: dict[bytes, bytes]) -> None:
        super().__init__()
        self._moved = moved

    async def read(self, keys: Sequence[bytes]) -> Mapping[bytes, bytes]:
        found = await super().read([self._moved.get(key, key) for key in keys])
        return {key: found[at] for key in keys if (at := self._moved.get(key, key)) in found}


def test_what_is_stored_for_one_caller_cannot_be_moved_to_the_row_of_another() -> None:
    async def story() -> None:
        at = memory()
        ids, before = ["call_A", "call_B"], fingerprint_of([ASK])
        anns = [*at.call_keys("ann", ids), at.place_key("ann", before, REPLY)]
        bobs = [*at.call_keys("bob", ids), at.place_key("bob", before, REPLY)]
        store = _MovedRows(dict(zip(bobs, anns, strict=True)))
        await memory(store).remember("ann", before, REMEMBERED)
        history = returned(Text("Let me look."), shown(0, "call_A"), shown(1, "call_B"))
        own = await recall_originals(memory(store), "ann", history)
        assert own.last == REMEMBERED
        stolen = await recall_originals(memory(store), "bob", history)
        assert stolen.last is None
        assert stolen.messages == tuple(history)
        assert await memory(store).recall(bobs) == {}

    asyncio.run(story())


def test_the_keys_of_many_places_are_those_of_each() -> None:
    at, befores = memory(), [fingerprint_of([]), fingerprint_of([ASK])]
    places = [at.place_key("me", before, REPLY) for before in befores]
    exact = [at.exact_keys("me", b"opening", before, REPLY)[0] for before in befores]
    own = [at.own_place_key("me", "a name", before, REPLY) for before in befores]
    assert at.keys_at("me", "a name", b"opening", places) == [*zip(exact, own, strict=True)]
    assert at.keys_at("me", "", b"opening", places) == [(key,) for key in exact]


def test_replies_of_an_earlier_version_are_still_read() -> None:
    """They were bound to nothing but their kind."""

    async def story() -> None:
        store = SQLiteMemoryStore()
        keys = tuple(memory().call_keys("me", ["call_A", "call_B"]))
        body = KEY.encrypt(encode_reply(REMEMBERED), bound_to=b"reply")
        await store.write([MemoryRecord(keys, body)])
        assert (await memory(store).recall(keys)) == dict.fromkeys(keys, REMEMBERED)

    asyncio.run(story())


def test_a_switch_holds_for_the_caller_whose_conversation_it_is() -> None:
    async def story() -> None:
        store = SQLiteMemoryStore()
        await store.note(ConversationInfo(id="same", caller="ann"))
        await store.switch("same", "openai/x")
        assert await memory(store).switched("ann", "same") == ("openai/x", True)
        assert await memory(store).switched("bob", "same") == ("", True)
        assert await memory(store).switched("ann", "other") == ("", False)

    asyncio.run(story())


def test_a_reply_with_calls_takes_its_place_again(tmp_path: Path) -> None:
    async def story() -> None:
        file = tmp_path / "memory.sqlite"
        before = fingerprint_of([ASK])
        one = memory(SQLiteMemoryStore(file))
        await one.remember("me", before, REMEMBERED)
        await one.close()
        two = memory(SQLiteMemoryStore(file))
        history = returned(Text("Let me look."), shown(0, "call_A"), shown(1, "call_B"))
        found = await recall_originals(two, "me", history)
        assert [call.id for call in found.messages[1].calls] == ["c0", "c1"]
        assert found.messages[1].calls[0].seal == REPLY.calls[0].seal
        assert found.messages[1].calls[0].native_id == "toolu_native_a"
        assert found.messages[1].calls[0].raw == '{"path":"a"}'
        assert found.messages[1].blocks[:2] == REPLY.blocks[:2]
        assert found.messages[1].origin == ORIGIN
        assert found.messages[0] is history[0]
        assert found.messages[2:] == tuple(history[2:])
        assert found.last == REMEMBERED
        replies = found.replies.values()
        assert {call_id: reply.route for reply in replies for call_id in reply.calls} == {
            "call_A": "anthropic/some-model",
            "call_B": "anthropic/some-model",
        }
        await two.close()

    asyncio.run(story())


def test_the_client_s_version_stands_where_it_changed_the_reply() -> None:
    async def story() -> None:
        held = memory()
        await held.remember("me", START, REMEMBERED)
        found = await recall_originals(held, "me", returned(Text("Shorter."), shown(0, "call_B")))
        assert [type(block) for block in found.messages[1].blocks] == [Reasoning, Text, ToolCall]
        assert found.messages[1].text == "Shorter."
        assert found.messages[1].calls[0] == ToolCall(
            "c0", "read", {"path": "b"}, '{"path":"b"}', "toolu_native_b"
        )

    asyncio.run(story())


def test_an_edited_text_beside_all_calls_of_a_reply_stays_as_the_client_edited_it() -> None:
    async def story() -> None:
        held = memory()
        await held.remember("me", START, REMEMBERED)
        history = returned(Text("I shall look."), shown(0, "call_A"), shown(1, "call_B"))
        edited = (await recall_originals(held, "me", history)).messages[1]
        assert edited.text == "I shall look."
        assert [call.native_id for call in edited.calls] == ["toolu_native_a", "toolu_native_b"]
        assert edited.calls[0].seal == REPLY.calls[0].seal

    asyncio.run(story())


def test_an_id_that_a_provider_gave_to_another_call_recalls_nothing() -> None:
    forwarded = RememberedReply(
        model(ToolCall("c0", "read", {"path": "a"}, native_id="read:0"), origin=ORIGIN),
        "a/b",
        {"read:0": "c0"},
    )

    async def story() -> None:
        held = memory()
        await held.remember("me", START, forwarded)
        same = await recall_originals(
            held, "me", returned(ToolCall("c0", "read", {"path": "a"}, native_id="read:0"))
        )
        other = await recall_originals(
            held, "me", returned(ToolCall("c0", "read", {"path": "b"}, native_id="read:0"))
        )
        assert same.messages[1].origin == ORIGIN
        assert other.messages[1].calls[0].arguments == {"path": "b"}
        assert other.replies == {}

    asyncio.run(story())


def test_calls_of_two_replies_in_one_message_get_the_seals_of_both() -> None:
    other = RememberedReply(
        model(Reasoning("second", SEAL), ToolCall("c9", "write", {}, "{}", "toolu_z"), origin=ORIGIN),
        "anthropic/some-model",
        {"call_Z": "c9"},
    )

    async def story() -> None:
        held = memory()
        await held.remember("me", START, REMEMBERED)
        await held.remember("me", START, other)
        found = await recall_originals(held, "me", returned(shown(0, "call_A"), shown(1, "call_Z")))
        assert [type(block) for block in found.messages[1].blocks] == [
            Reasoning,
            ToolCall,
            Reasoning,
            ToolCall,
        ]

    asyncio.run(story())


def test_a_reply_of_text_only_is_found_by_its_place() -> None:
    whole = model(Reasoning("", SEAL), Text("Done.\n"), origin=ORIGIN)

    async def story() -> None:
        held = memory()
        before = fingerprint_of([ASK])
        await held.remember("me", before, RememberedReply(whole, "a/b"))
        same = await recall_originals(held, "me", [ASK, model("Done."), user("Thanks")])
        elsewhere = await recall_originals(held, "me", [user("Another"), model("Done."), user("Thanks")])
        assert same.messages[1] == whole
        assert elsewhere.messages[1] == model("Done.")
        assert elsewhere.last is None

    asyncio.run(story())


def test_a_client_that_returns_no_ids_is_known_by_place() -> None:
    async def story() -> None:
        held = memory()
        await held.remember("me", fingerprint_of([ASK]), REMEMBERED)
        found = await recall_originals(held, "me", returned(Text("Let me look."), shown(0, ""), shown(1, "")))
        assert found.messages[1].blocks[0] == REPLY.blocks[0]

    asyncio.run(story())


def test_a_reply_that_returns_with_its_ids_is_kept_under_them_only() -> None:
    async def story() -> None:
        held = memory()
        await held.remember("me", None, REMEMBERED)
        by_ids = returned(Text("Let me look."), shown(0, "call_A"), shown(1, "call_B"))
        assert (await recall_originals(held, "me", by_ids)).replies == {1: REMEMBERED}
        by_place = returned(Text("Let me look."), shown(0, ""), shown(1, ""))
        assert (await recall_originals(held, "me", by_place)).replies == {}

    asyncio.run(story())


def test_no_caller_sees_what_belongs_to_another() -> None:
    async def story() -> None:
        held = memory()
        await held.remember("me", START, REMEMBERED)
        await held.put_object("me", "response", "resp_1", b"mine")
        history = returned(Text("Let me look."), shown(0, "call_A"), shown(1, "call_B"))
        assert (await recall_originals(held, "you", history)).replies == {}
        assert await held.get_object("you", "response", "resp_1") is None
        assert await held.get_object("me", "response", "resp_1") == b"mine"
        assert not await held.delete_object("you", "response", "resp_1")
        assert await held.delete_object("me", "response", "resp_1")
        assert await held.get_object("me", "response", "resp_1") is None
        assert held.open_capsule("you", held.seal_capsule("me", b"x")) is None

    asyncio.run(story())


def test_nothing_on_the_disk_can_be_read_without_the_key(tmp_path: Path) -> None:
    async def story() -> None:
        held = memory(SQLiteMemoryStore(tmp_path / "memory.sqlite"))
        await held.remember("caller-name", START, REMEMBERED)
        await held.put_object("caller-name", "response", "resp_1", b"secret words")
        data = b"".join(file.read_bytes() for file in tmp_path.iterdir())
        for word in (b"Let me look", b"call_A", b"toolu_native", b"c2VhbA", b"secret words", b"caller-name"):
            assert word not in data
        await held.close()
        other = Memory(SQLiteMemoryStore(tmp_path / "memory.sqlite"), InstallationKey(b"o" * 32))
        history = returned(Text("Let me look."), shown(0, "call_A"), shown(1, "call_B"))
        assert (await recall_originals(other, "caller-name", history)).replies == {}
        await other.close()

    asyncio.run(story())


def test_a_capsule_opens_only_whole() -> None:
    held = memory()
    capsule = held.seal_capsule("me", b"reasoning")
    assert is_capsule(capsule)
    assert capsule.isascii()
    assert held.open_capsule("me", capsule) == b"reasoning"
    other = "BB" if capsule.endswith("AA") else "AA"
    for broken in (capsule[:-1], capsule[:-2] + other, capsule + "A", "segue.1.", "segue.1.é", "sig", ""):
        assert held.open_capsule("me", broken) is None


def test_a_store_that_fails_costs_no_reply(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "memory.sqlite").write_bytes(b"no database" * 1000)

    async def story() -> None:
        held = memory(SQLiteMemoryStore(tmp_path / "memory.sqlite"))
        with caplog.at_level(logging.WARNING, "segue.gateway"):
            await held.remember("me", START, REMEMBERED)
            await recall_originals(held, "me", [ASK, model("unknown")])
        assert "was not remembered" in caplog.text
        assert "were not recalled" in caplog.text

    asyncio.run(story())


def test_what_is_kept_at_hand_is_bounded() -> None:
    async def story() -> None:
        held = Memory(SQLiteMemoryStore(max_bytes=1), KEY, cache_bytes=3_000)
        for number in range(20):
            reply = RememberedReply(model(Text("x" * 1000)), "a/b", {f"call_{number}": "c0"})
            await held.remember("me", b"%d" % number, reply)
        keys = held.call_keys("me", [f"call_{number}" for number in range(20)])
        assert set(await held.recall(keys)) == {keys[19]}

    asyncio.run(story())


def test_a_fingerprint_ignores_what_clients_drop_or_change() -> None:
    plain = [ASK, model("Yes."), user("Go on")]
    note = Message("user", (Text("It is 10:31."),), instruction=True)
    dressed = [ASK, note, model(Reasoning("hm", SEAL), " Yes.\n", origin=ORIGIN), user("Go on")]
    assert fingerprint_of(plain) == fingerprint_of(dressed)


def test_a_fingerprint_tells_histories_apart() -> None:
    histories = [
        [],
        [user("a")],
        [user("a"), user("b")],
        [user("a", "b")],
        [user("ab")],
        [model("a")],
        [user(Media("image", "image/png", "AAAA"))],
        [user(Media("image", "image/png", "AAAB"))],
        [tool(ToolResult("c0", "x", {"a": 1}))],
        [tool(ToolResult("c0", "x", {"a": 2}))],
        [model(ToolCall("c0", "x"))],
        [model(ToolCall("c1", "x"))],
    ]
    assert len({fingerprint_of(history) for history in histories}) == len(histories)
    begun = Fingerprint()
    begun.add(user("a"))
    other = begun.fork()
    begun.add(model("b"))
    other.add(model("c"))
    assert begun.digest == fingerprint_of([user("a"), model("b")])
    assert other.digest == fingerprint_of([user("a"), model("c")])


def test_a_result_is_known_by_a_long_id_since_clients_shorten_old_results() -> None:
    def fingerprint(call_id: str, output: str) -> bytes:
        return fingerprint_of([tool(ToolResult("c0", "x", output, native_id=call_id))])

    minted = "call_0123456789abcdefghij"
    assert fingerprint(minted, "whole") == fingerprint(minted, "shortened")
    assert fingerprint(minted, "whole") != fingerprint(minted.upper(), "whole")
    assert fingerprint("Bash:0", "whole") != fingerprint("Bash:0", "shortened")


def test_many_call_keys_are_those_of_each_call() -> None:
    held = Memory(SQLiteMemoryStore(), KEY)
    ids = ["call_1", "", "é", "\ud800"]
    assert held.call_keys("me", ids) == [KEY.digest("call", "me", one) for one in ids]


def _digest(file: Path) -> bytes:
    return read_key(file).digest("x")


def test_all_that_make_the_key_at_once_get_the_same_one(tmp_path: Path) -> None:
    file = tmp_path / "inner" / "key"
    with ThreadPoolExecutor(8) as pool:
        digests = set(pool.map(_digest, [file] * 32))
    assert len(digests) == 1
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert [path.name for path in file.parent.iterdir()] == ["key"]


def test_a_key_file_that_holds_no_key_is_refused(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("short\n")
    with pytest.raises(JournalError, match="Restore the file"):
        read_key(tmp_path / "key")
    assert "k" * 8 not in repr(KEY)
