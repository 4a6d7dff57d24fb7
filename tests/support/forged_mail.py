"""Messages that a site did not send, or that confirm nothing: each must not be followed."""

from collections.abc import Iterator
from email.message import EmailMessage

from support.mail import SIGNED, key_of, signed, unsigned

HOST, PATH = "seekfolk.example", "/confirm"
OTHER_HOSTS = (
    *(
        "evil.example",
        "seekfolk.example.evil.example",
        "www.seekfolk.example",
        "seekfolk.example.",
        "seekfo1k.example",
    ),
    *(
        "xn--seekflk-6bb.example",
        "seekf\u043elk.example",
        "seekfolk.example@evil.example",
        "seekfolk.example:8443",
    ),
    *(
        "seekfolk.example%2eevil.example",
        "seekfolk.example\\@evil.example",
        "a:b@seekfolk.example",
        "127.0.0.1",
    ),
    *(
        "[::1]",
        "seekfolk-example",
        "seekfolk.exampl",
        "xseekfolk.example",
        "seekfolk.example\u3002evil.example",
    ),
)
SENDERS = (
    *("no-reply@evil.example", "no-reply@seekfo1k.example", "no-reply@seekfolk.example.evil.example"),
    *("no-reply@mail.seekfolk.example", "other@seekfolk.example", "no-reply@xn--seekflk-6bb.example"),
    '"no-reply@seekfolk.example" <no-reply@evil.example>',
    "Seekfolk <no-reply@evil.example>",
    "no-reply@evil.example, no-reply@seekfolk.example",
    "no-reply@seekfolk.example, no-reply@evil.example",
)
DOMAINS = (
    "evil.example",
    "seekfo1k.example",
    "mail.seekfolk.example",
    "example",
    "seekfolk.example.evil.example",
)
LINKS = tuple(f"http://{HOST}{PATH}?t=forged{number}" for number in range(8))


def forgeries(address: str, kind: str | None = None) -> dict[str, bytes]:
    """Forged messages to a request's address, by kind and variant; of one kind or all."""
    return {
        f"{name} {number}": message
        for name, messages in _kinds(address).items()
        if kind in {None, name}
        for number, message in enumerate(messages)
    }


def kinds() -> set[str]:
    """The kinds of forgeries."""
    return {*_kinds("a+0@b.example")}


def _kinds(address: str) -> dict[str, Iterator[bytes]]:
    local, _, domain = address.partition("@")
    attacker = key_of("attacker.example")
    others = (
        *(f"{local[:-1]}x@{domain}", f"{local}@evil.example", f"{local[:7]}@{domain}", f"{local}0@{domain}"),
        *(
            f"{address}, someone@evil.example",
            f"someone@evil.example, {address}",
            f"{local}@{domain}.evil.example",
        ),
    )
    return {
        "another host": (signed(unsigned(address, f"http://{host}{PATH}?t=1")) for host in OTHER_HOSTS),
        "another host in HTML": (
            signed(unsigned(address, html=f'<a href="http://{host}{PATH}">http://{HOST}{PATH}</a>'))
            for host in OTHER_HOSTS
        ),
        "another scheme": (
            signed(unsigned(address, f"{scheme}:{slashes}{HOST}{PATH}"))
            for scheme in ("ftp", "javascript", "file", "data", "httpx")
            for slashes in ("//", "")
        ),
        "another path": (
            signed(unsigned(address, f"http://{HOST}{path}"))
            for path in (
                "/",
                "",
                "/unsubscribe",
                "/Confirm",
                "/x/confirm",
                "?/confirm",
                "#/confirm",
                "/confir",
            )
        ),
        "several links": (
            signed(unsigned(address, f"{link} http://{HOST}{PATH}?t=other")) for link in LINKS[:4]
        ),
        "no signature": (unsigned(address, link).as_bytes() for link in LINKS),
        "signed by another domain": (
            signed(unsigned(address, link), one) for one in DOMAINS for link in LINKS[:4]
        ),
        "signed with another key": (signed(unsigned(address, link), HOST, key=attacker) for link in LINKS),
        "no key": (signed(unsigned(address, link), selector="s2") for link in LINKS[:4]),
        "revoked key": (signed(unsigned(address, link), selector="revoked") for link in LINKS[:4]),
        "key for tests": (signed(unsigned(address, link), selector="testing") for link in LINKS[:4]),
        "SHA-1": (signed(unsigned(address, link), signature_algorithm=b"rsa-sha1") for link in LINKS[:4]),
        "part of the body signed": (
            signed(unsigned(address, "Hello"), length=True) + f"\r\n{link}\r\n".encode() for link in LINKS
        ),
        "changed after signing": _changed(address),
        "header not signed": (
            signed(unsigned(address, link), headers=tuple(set(SIGNED) - {name}))
            for name in ("to", "subject")
            for link in LINKS[:4]
        ),
        "another sender": (signed(unsigned(address, LINKS[0], sender=sender)) for sender in SENDERS),
        "another sender, signed by theirs": (
            signed(unsigned(address, LINKS[0], sender=sender), "evil.example") for sender in SENDERS
        ),
        "repeated header": (
            f"{header}\r\n".encode() + signed(unsigned(address, link))
            for header in (f"From: no-reply@{HOST}", f"To: {address}", "Subject: Please confirm your opt-out")
            for link in LINKS[:3]
        ),
        "another subject": (
            signed(unsigned(address, LINKS[0], subject=subject))
            for subject in (
                "",
                "Welcome",
                "Please confirm",
                "Confirm your  opt-out",
                "Confirm your 0pt-out",
                "opt-out",
            )
        ),
        "another recipient": (signed(unsigned(other, LINKS[0])) for other in others),
        "bounce": (
            signed(_report(address, link, sender=sender))
            for sender in (f"no-reply@{HOST}", f"mailer-daemon@{HOST}", f"postmaster@{HOST}")
            for link in LINKS[:3]
        ),
        "in an attachment": (signed(_with_attachment(address, link)) for link in LINKS[:4]),
        "a forwarded message": (signed(_forwarded(address, link)) for link in LINKS[:4]),
        "unreadable": iter(_unreadable(address)),
    }


def _changed(address: str) -> Iterator[bytes]:
    for link in LINKS:
        yield signed(unsigned(address, "http://seekfolk.example/nothing")).replace(
            b"/nothing", link.removeprefix(f"http://{HOST}").encode()
        )
    honest = signed(unsigned(address, LINKS[0]))
    yield honest.replace(b"Please confirm", b"Do now confirm")
    yield honest.replace(b"Date: Fri", b"Date: Sat")
    yield honest + b"One line more\r\n"
    yield honest.replace(b"Content-Type: text/plain", b"Content-Type: text/html")
    for other in ("someone@seekfolk.example", "optout+" + "0" * 32 + "@privacy.example"):
        yield signed(unsigned(other, LINKS[0])).replace(other.encode(), address.encode())


def _report(address: str, link: str, *, sender: str) -> EmailMessage:
    message = unsigned(address, link, sender=sender, subject="Confirm your opt-out: undeliverable")
    message.make_mixed()
    message.replace_header("Content-Type", 'multipart/report; report-type=delivery-status; boundary="b0"')
    return message


def _with_attachment(address: str, link: str) -> EmailMessage:
    message = unsigned(address)
    message.add_attachment(link, filename="link.txt")
    return message


def _forwarded(address: str, link: str) -> EmailMessage:
    message = unsigned(address)
    message.add_attachment(unsigned(address, link))
    return message


def _unreadable(address: str) -> Iterator[bytes]:
    head = f"From: no-reply@{HOST}\r\nTo: {address}\r\nSubject: confirm your opt-out\r\n".encode()
    body = f"\r\n\r\n{LINKS[0]}\r\n".encode()
    yield signed(head + b"Content-Type: multipart/mixed; boundary=a\r\n" + b"\r\n--a\r\n" * 300 + body)
    yield signed(head + b"Content-Type: text/plain; charset=" + b"x" * 9_000 + body)
    yield signed(head.replace(b"From: ", b"From: " + b"(" * 3_000) + body)
    yield signed(head.replace(b"From: no-reply", b"From: \xff\xfe\x00no-reply") + body)
    yield head + bytes(range(256)) * 40
    yield b"\x00" * 100
