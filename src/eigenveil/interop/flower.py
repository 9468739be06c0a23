"""A federation round inside Flower: its messages carry what the files of a round hold.

The server sends the draft, every site joins with fresh keys, the server closes the round and sends it, every site
contributes, and the server combines. Masks, signatures and noise are those of `eigenveil.federation`, so the release
is the same to the bit as that of a round by files. The server is trusted no more than whoever combines files: it
sees masked numbers and their sum. Needs the packages ``flwr`` and ``cryptography``.
"""

import logging
import time
from collections.abc import Callable, Iterable
from os import PathLike
from pathlib import Path
from typing import Any

from ..accounting.ledger import LedgerOrPath
from ..errors import EigenveilError
from ..federation import FederationError, Round, SiteKeys, combine, contribute
from ..releases.record import Release

_LOG = logging.getLogger(__name__)
_RECORD = "eigenveil"
_STEP, _ROUND = "step", "round"
_JOINED, _CONTRIBUTION, _REFUSED = "joined", "contribution", "refused"
_POLL_SECONDS = 0.2


def client_app(
    site: Callable[[Any], str],
    data: Callable[[Any], Any],
    *,
    folder: str | PathLike[str],
    confirm: Callable[[Round], bool],
    ledger: Callable[[Any], LedgerOrPath] | None = None,
    generator: Callable[[Any], Any] | None = None,
) -> Any:
    """Return the Flower ``ClientApp`` of the sites of a round.

    Parameters
    ----------
    site : callable
        Takes Flower's context and returns the name by which this site was invited.
    data : callable
        Takes the context and returns the rows of this site, as `eigenveil.federation.contribute` takes them.
    folder : path
        A folder of this site for its private keys and its contribution; made if it is not there.
    confirm : callable
        Takes the closed round and says whether to contribute. The server could have exchanged keys, so compare
        ``agreed.fingerprint`` with the other sites over another channel, and look at ``agreed.sites``.
    ledger : callable, optional
        Takes the context and returns the ledger of this site.
    generator : callable, optional
        Takes the context and returns a generator of noise; the secure one by default.
    """
    from flwr.app import ConfigRecord, Message, RecordDict
    from flwr.clientapp import ClientApp

    own_folder = Path(folder)

    def joined(asked: Any, context: Any) -> dict[str, Any]:
        draft = Round.from_json(asked[_ROUND])
        keys = SiteKeys.create(site(context), draft.terms)
        own_folder.mkdir(parents=True, exist_ok=True)
        keys.save(_key_file(own_folder, keys.site, draft))
        return {_JOINED: keys.join(draft).to_json()}

    def contributed(asked: Any, context: Any) -> dict[str, Any]:
        agreed, name = Round.from_json(asked[_ROUND]), site(context)
        if not confirm(agreed):
            raise FederationError("This site did not confirm the round; nothing was spent.")
        output = own_folder / f"{name}-{agreed.fingerprint[:16]}.contribution"
        contribute(
            agreed,
            _key_file(own_folder, name, agreed),
            data(context),
            output,
            ledger=None if ledger is None else ledger(context),
            generator=None if generator is None else generator(context),
        )
        return {_CONTRIBUTION: output.read_bytes()}

    steps = {_JOINED: joined, _CONTRIBUTION: contributed}
    app = ClientApp()

    def answer(message: Any, context: Any) -> Any:
        asked = message.content[_RECORD]
        try:
            facts = steps[str(asked[_STEP])](asked, context)
        except Exception as error:  # why is for this site alone: a reason may depend on its rows
            reason = str(error) if isinstance(error, EigenveilError) else f"an unexpected {type(error).__name__}"
            _LOG.error("This site takes no part in the round: %s", reason)
            facts = {_REFUSED: True}
        return Message(RecordDict({_RECORD: ConfigRecord(facts)}), reply_to=message)

    app.query()(answer)
    return app


def server_app(draft: Round, output: str | PathLike[str], *, timeout: float = 3600.0) -> Any:
    """Return the Flower ``ServerApp`` that runs a round and writes its release.

    Parameters
    ----------
    draft : Round
        That of `eigenveil.federation.invite`; every invited site runs one node.
    output : path
        The release file.
    timeout : float
        Seconds to wait for the sites to connect, and for their answers. With fewer sites than the quorum, or if a site
        that joined does not contribute, there is no release, and an error names who is missing.
    """
    from flwr.serverapp import ServerApp

    def main(grid: Any, context: Any) -> None:
        run_round(grid, draft, timeout).save(output)

    app = ServerApp()
    app.main()(main)
    return app


def run_round(grid: Any, draft: Round, timeout: float = 3600.0) -> Release:
    """Return the release of a round among the nodes of a Flower ``Grid``; for a ``ServerApp`` of your own.

    Parameters
    ----------
    grid : flwr.serverapp.Grid
    draft : Round
    timeout : float
        As in `server_app`.
    """
    nodes, until = list(grid.get_node_ids()), time.monotonic() + timeout
    while len(nodes) < len(draft.terms.invited) and time.monotonic() < until:
        time.sleep(_POLL_SECONDS)
        nodes = list(grid.get_node_ids())
    joined = {
        node: Round.from_json(str(facts[_JOINED]))
        for node, facts in _asked(grid, nodes, _JOINED, draft, timeout)
        if _JOINED in facts
    }
    agreed = draft.close(joined.values())
    answers = _asked(grid, joined, _CONTRIBUTION, agreed, timeout)
    return combine(agreed, [bytes(facts[_CONTRIBUTION]) for _, facts in answers if _CONTRIBUTION in facts])


def _asked(grid: Any, nodes: Iterable[int], step: str, agreed: Round, timeout: float) -> list[tuple[int, Any]]:
    """Send a step of the round to nodes; return the answers of those that answered, each with its node."""
    from flwr.app import ConfigRecord, Message, MessageType, RecordDict

    def asking(node: int) -> Any:
        facts = ConfigRecord({_STEP: step, _ROUND: agreed.to_json()})
        return Message(RecordDict({_RECORD: facts}), dst_node_id=node, message_type=MessageType.QUERY)

    replies = grid.send_and_receive([asking(node) for node in nodes], timeout=timeout)
    return [(reply.metadata.src_node_id, reply.content[_RECORD]) for reply in replies if reply.has_content()]


def _key_file(folder: Path, site: str, agreed: Round) -> Path:
    return folder / f"{site}-{agreed.terms.fingerprint[:16]}.key"
