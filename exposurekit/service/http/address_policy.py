"""Which hosts and addresses the service may visit. Decides on plain values; never resolves and never connects."""

import re
from collections.abc import Iterable, Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

from exposurekit.errors import ConfigurationError, ExposureError

Network = IPv4Network | IPv6Network

_METADATA_NAMES = {"metadata", "metadata.google.internal", "metadata.goog", "instance-data"}
_NEVER = tuple(
    map(
        ip_network,
        (
            "169.254.0.0/16",  # link-local; the metadata of most clouds
            "fe80::/10",  # link-local
            "fd00:ec2::/32",  # metadata: AWS
            "fd20:ce::254/128",  # metadata: Google
            "100.100.100.200/32",  # metadata: Alibaba
            "168.63.129.16/32",  # metadata: Azure, amid the global ones
            "192.0.0.192/32",  # metadata: Oracle
            # These hide an IPv4 address, some in more than one place: whoever needs none of them opens none.
            "64:ff9b:1::/48",  # NAT64 of one's own
            "::ffff:0:0:0/96",  # stateless translation
            "2002::/16",  # 6to4
            "2001::/32",  # Teredo
        ),
    )
)
# Written out: what `ipaddress` calls global has changed between Python's patch releases.
_NOT_GLOBAL = tuple(
    map(
        ip_network,
        (
            "0.0.0.0/8",
            "10.0.0.0/8",
            "100.64.0.0/10",  # carriers' own
            "127.0.0.0/8",
            "172.16.0.0/12",
            "192.0.0.0/24",  # protocol assignments
            "192.0.2.0/24",  # documentation
            "192.88.99.0/24",  # 6to4 relays
            "192.168.0.0/16",
            "198.18.0.0/15",  # benchmarks
            "198.51.100.0/24",  # documentation
            "203.0.113.0/24",  # documentation
            "224.0.0.0/4",  # multicast
            "240.0.0.0/4",  # reserved, and broadcast
            "2001::/23",  # protocol assignments
            "2001:db8::/32",  # documentation
            "3fff::/20",  # documentation
        ),
    )
)
_GLOBAL_6 = ip_network("2000::/3")  # all that was ever given out
_CARRYING_IPV4 = tuple(map(ip_network, ("::/96", "::ffff:0:0/96", "64:ff9b::/96")))

_NAME = re.compile(r"(?:[a-z0-9_-]{1,63}\.)*[a-z0-9_-]{1,63}\.?")
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")
_NAME_MAX = 254


class ForbiddenAddress(ExposureError):
    """The service may not go there: no plain http(s) address, or one that is not public.

    An operator can open networks of their own; never link-local ones and never a cloud's metadata.
    """


class NotPublic(ForbiddenAddress):
    """A host leads elsewhere than to a public network, or to one that the operator opened."""


def networks(opened: Iterable[str]) -> tuple[Network, ...]:
    """The networks that an operator opens.

    Raises:
        ConfigurationError: One is not in CIDR form.
    """
    try:
        return tuple(map(ip_network, opened))
    except ValueError:
        pass
    raise ConfigurationError(
        "an opened network is written like 10.0.0.0/8 or fd00::/8, with no bits set behind it"
    )


def check_host(host: str) -> None:
    """Names and addresses in their plain spelling pass; whether an address may be visited is not said yet.

    Args:
        host: As the connection will be made with it: lower case, ASCII, an IPv6 address without brackets.

    Raises:
        ForbiddenAddress: It is the name of a metadata service, or no host in a plain spelling.

    >>> check_host("people.example")
    >>> check_host("0x7f.1")
    Traceback (most recent call last):
    exposurekit.service.http.address_policy.ForbiddenAddress: ...
    """
    if literal(host) is not None:
        return
    name = host.removesuffix(".")
    if name in _METADATA_NAMES:
        raise ForbiddenAddress("the address may not be visited: it is a metadata service")
    # A name cannot end in a number: what does is an IPv4 address in a spelling that each program reads its way.
    odd = len(host) > _NAME_MAX or not _NAME.fullmatch(host) or _NUMBER.fullmatch(name.rpartition(".")[2])
    if odd:
        raise ForbiddenAddress("the address may not be visited: its host is not written plainly")


def literal(host: str) -> IPv4Address | IPv6Address | None:
    """The address that a host is, in its plain spelling; None for a name."""
    try:
        return ip_address(host)
    except ValueError:
        return None


def check_addresses(addresses: Sequence[str], opened: Sequence[Network] = ()) -> None:
    """Pass where a host may be visited at each of its addresses.

    Raises:
        ForbiddenAddress: One of them is not an address, is not public and not opened, or is never to be visited.

    >>> check_addresses(["93.184.216.34"])
    >>> check_addresses(["10.1.2.3"], networks(["10.0.0.0/8"]))
    >>> check_addresses(["93.184.216.34", "::ffff:127.0.0.1"])
    Traceback (most recent call last):
    exposurekit.service.http.address_policy.NotPublic: ...
    """
    for address in addresses:
        parsed = literal(address)
        if parsed is None or not _may_be_visited(parsed, opened):
            raise NotPublic(
                "the address may not be visited: it does not lead to a public network, nor to one that is opened"
            )


def all_opened(addresses: Sequence[str], opened: Sequence[Network]) -> bool:
    """Whether each of them lies in a network that an operator opened.

    >>> all_opened(["10.1.2.3", "93.184.216.34"], networks(["10.0.0.0/8"]))
    False
    """
    parsed = [literal(address) for address in addresses]
    return all(
        address is not None and (_within(address, opened) or _within(_carried(address) or address, opened))
        for address in parsed
    )


def _may_be_visited(address: IPv4Address | IPv6Address, opened: Sequence[Network]) -> bool:
    if getattr(address, "scope_id", None) is not None:
        return False
    meant = _carried(address) or address
    if _within(meant, _NEVER):
        return False
    if _within(address, opened) or _within(meant, opened):
        return True
    return not _within(meant, _NOT_GLOBAL) and (isinstance(meant, IPv4Address) or meant in _GLOBAL_6)


def _carried(address: IPv4Address | IPv6Address) -> IPv4Address | None:
    """The IPv4 address that a mapped, translated or compatible one leads to."""
    return IPv4Address(int(address) & 0xFFFFFFFF) if _within(address, _CARRYING_IPV4) else None


def _within(address: IPv4Address | IPv6Address, among: Sequence[Network]) -> bool:
    return any(address in network for network in among)
