"""Each fault on the wire, and the error that it should raise."""

from dataclasses import dataclass

from support import faults
from support.faults import Answer, BlackHole, Cut, Drip, Garbage, LoseReply, OversizedHeaders, Reset

from exposurekit.errors import APIStatusError, BadRequest, ConnectionFailed, InvalidResponse, Unauthorized

SHORT_S = 0.4  # for a request without a response


@dataclass(frozen=True)
class Kind:
    """A fault, and the error that it should raise."""

    fault: faults.Fault
    error: type[Exception]
    status: int | None = None
    again: bool = True  # retried where the call may be repeated


LOST = {
    "lost reply": LoseReply(),
    "lost reply, not processed": LoseReply(processed=False),
    "cut at once": Cut(0),
    "cut after a byte": Cut(1),
    "cut later": Cut(200),
    "reset before": Reset("before"),
    "reset after": Reset("after"),
    "reset amid": Reset("amid"),
    "black hole": BlackHole(),
    "drip": Drip(),
    "garbage": Garbage(),
    "garbage of nothing but line ends": Garbage(b"\r\n\r\n\r\n"),
    "headers of a megabyte": OversizedHeaders(),
    "a thousand headers": OversizedHeaders(lines="many"),
    "invalid gzip": Answer(body=b"\x1f\x8b is no gzip", headers=(("Content-Encoding", "gzip"),)),
}

KINDS = {name: Kind(fault, ConnectionFailed) for name, fault in LOST.items()} | {
    "429": Kind(faults.too_many(0), APIStatusError, 429),
    "429 without a wait": Kind(faults.too_many(None), APIStatusError, 429),
    "429 with a nonsensical wait": Kind(faults.too_many("soon"), APIStatusError, 429),
    "503": Kind(faults.unavailable(0), APIStatusError, 503),
    "502": Kind(faults.server_error(502), APIStatusError, 502),
    "504": Kind(faults.server_error(504), APIStatusError, 504),
    "500": Kind(faults.server_error(), APIStatusError, 500, again=False),
    "400": Kind(faults.refused(400), BadRequest, 400, again=False),
    "401": Kind(faults.refused(401), Unauthorized, 401, again=False),
    "a redirect": Kind(faults.redirect(), APIStatusError, 302, again=False),
    "a permanent redirect": Kind(faults.redirect(status=308), APIStatusError, 308, again=False),
    "a web page": Kind(faults.html_page(), InvalidResponse, again=False),
    "nothing": Kind(faults.empty(), InvalidResponse, again=False),
    "another object": Kind(Answer(body=b'{"person": {}}'), InvalidResponse, again=False),
}
