"""Which link of a message may be followed: the one that the site's definition describes, and no other."""

from exposurekit.errors import ExposureError
from exposurekit.service.http.address_policy import ForbiddenAddress
from exposurekit.service.http.request import parse_url
from exposurekit.service.mail.message_parsing import Mail
from exposurekit.service.sites.definition import Confirmation


class NotFollowed(ExposureError):
    """The message or its link is not what the definition describes; the text is the reason, without a value."""


def check_headers(mail: Mail, expected: Confirmation, address: str) -> None:
    """Check who sent a message to whom, and its subject; raises `NotFollowed`.

    Only a signature shows that these headers are true.
    """
    if mail.is_report:
        raise NotFollowed("it is a report on the delivery of mail")
    if mail.repeated:
        raise NotFollowed("a header is missing or repeated: From, To or Subject")
    if not _is_from(mail, expected.sender):
        raise NotFollowed("its sender is not that of the definition")
    if mail.recipients != (address,):
        raise NotFollowed("it is not addressed to this request alone")
    if not any(text.casefold() in mail.subject.casefold() for text in expected.subject):
        raise NotFollowed("its subject is not that of the definition")


def _is_from(mail: Mail, sender: str) -> bool:
    if len(mail.senders) != 1:
        return False
    return mail.senders[0] == sender if sender[0] != "@" else mail.senders[0].rpartition("@")[2] == sender[1:]


def confirmation_link(mail: Mail, expected: Confirmation) -> str:
    """Return the only link with the host and the path of the definition; raises `NotFollowed`."""
    links = {url for link in mail.links() if (url := _described(link, expected)) is not None}
    if not links:
        raise NotFollowed("it has no link that the definition describes")
    if len(links) > 1:
        raise NotFollowed("it has several links that the definition describes: link_path can tell them apart")
    return links.pop()


def _described(link: str, expected: Confirmation) -> str | None:
    """Return a link in its usual form, if the definition describes it."""
    try:
        url = parse_url(link)
    except ForbiddenAddress:
        return None
    is_described = url.raw_host == expected.link_host and url.raw_path.startswith(expected.link_path)
    return str(url) if is_described and url.is_default_port() else None
