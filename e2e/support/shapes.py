"""Request and answer bodies in the shapes of the OpenAI API."""

import json
import random
from typing import Any

# Common words only: the tiny llama.cpp model learns its tokens from the same list, and a token is then about a word.
WORDS = """
able about above across action active after again against agent air all allow almost along already also always among
amount and animal another answer any appear area around arrive art ask author away back bank base battle bear beat
beautiful because become before begin behind believe below best better between beyond big bird black blood blue board
boat body book border both bottom bright bring broad brother build business call capital captain car care carry case
catch cause center century certain chance change charge chart check child choose circle city claim class clean clear
climb close cloud coast cold color column come common company compare complete condition consider contain continue
control cook copper corner correct cost cotton could count country course cover create crop cross crowd current custom
daily dance danger dark daughter day deal decide deep degree depend describe desert design develop differ direct
discuss distance divide doctor double doubt down draw dream dress drink drive during each early earth east easy edge
effect effort either electric else empty end enemy energy engine enjoy enough enter equal escape even evening event
ever every exact example except excite exercise expect experience explain eye face fact fall family famous farm fast
father favor fear feel field fight figure fill final find fine finger finish fire first fish flat floor flow flower
follow food foot force foreign forest form forward found free fresh friend front fruit full game garden gather general
gentle girl give glad glass gold good govern grand grass great green ground group grow guess guide half hand happen
harbor hard heart heat heavy help here high hill history hold home hope horse hot hour house however huge human
hundred hunt hurry idea important inch include increase indicate industry insect instrument interest iron island join
journey judge jump just keep kind king know lake land language large last late laugh law lead learn leave length
letter level lie life lift light like line liquid list listen little live local long look lose loud love machine
magnet main make many map mark market master match material matter mean measure meet metal method middle might mile
milk million mind minute miss modern moment money month moon more morning most mother motion mountain mouth move much
music must name nation natural nature near necessary need never new next night noise north note nothing notice noun
number object observe ocean offer office often open operate opposite order other over own page paint paper parent
part particular party pass past path pattern people perhaps period person phrase picture piece place plain plan plane
planet plant play please point poor position possible pound power practice prepare present press pretty print private
problem process produce product promise proper protect provide public pull push quart question quick quiet quite race
radio rain raise range rather reach read ready real reason receive record region relate remain remember repeat reply
report require rest result return rich ride right river road rock roll room round rule run safe sail salt same sand
save school science sea search season seat second section see seem select self sell send sense sentence separate serve
settle several shade shall shape share sharp shell shine ship shore short should shoulder show side sight sign silent
silver similar simple since sing single sister size skill skin sky sleep slow small smell smile snow social soft soil
soldier solution some song soon sound south space speak special speed spell spend spot spread spring square stand star
start state station stay steam steel step still stone stop store story straight strange stream street stretch string
strong student study subject substance success such sudden suffer sugar suggest suit summer sun supply support sure
surface surprise sweet swim symbol system table tail take talk tall teach team tell temper term test thank their then
there these thick thin thing think third this those though thought thousand three through throw thus time tiny together
tone tool top total touch toward town track trade train travel tree triangle trip trouble truck true try turn twenty
under unit until use usual valley value vary verb very view village visit voice wait walk wall want war warm wash
watch water wave way wear weather week weight well west wheel where whether which while white whole wide wife wild will
wind window wing winter wire wish woman wonder wood word work world would write wrong year yellow yes yet young
""".split()


def prose(seed: object, characters_min: int) -> str:
    """Words of at least so many characters, always the same for a seed, different from the first words on."""
    choose = random.Random(str(seed)).choice
    words: list[str] = []
    length = 0
    while length < characters_min:
        words.append(choose(WORDS))
        length += len(words[-1]) + 1
    return " ".join(words)


def chat(*contents: str, **members: Any) -> dict[str, Any]:
    """A chat body: user and assistant take turns; `messages` comes first, so equal prompts are equal prefixes."""
    roles = ("user", "assistant")
    messages = [{"role": roles[turn % 2], "content": content} for turn, content in enumerate(contents)]
    return {"messages": messages, "model": "sim"} | members


def encode(body: dict[str, Any]) -> bytes:
    """The bytes that boto3's users send: the standard encoder's, members in the order given."""
    return json.dumps(body).encode()


CHAT_ANSWER = encode(
    {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": "sim",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": "yes"}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 4, "completion_tokens": 1, "total_tokens": 5},
    }
)
"""A whole chat answer."""


def chat_events(*contents: str) -> list[bytes]:
    """The server-sent events of a chat answer: one per piece of content, the finish, and `[DONE]`."""
    deltas = [({"role": "assistant", "content": content}, None) for content in contents] + [({}, "stop")]
    events = [
        {
            "id": "chatcmpl-1",
            "object": "chat.completion.chunk",
            "created": 1,
            "model": "sim",
            "choices": [{"index": 0, "delta": delta, "finish_reason": reason}],
        }
        for delta, reason in deltas
    ]
    return [b"data: %s\n\n" % encode(event) for event in events] + [b"data: [DONE]\n\n"]
