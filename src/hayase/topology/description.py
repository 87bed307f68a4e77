"""What `Topology.describe()` gives."""

from __future__ import annotations

from hayase.topology.graph import TopologyGraph
from hayase.topology.mermaid import to_mermaid


class TopologyDescription(str):
    """The description of a topology: a string to print, which notebooks and `to_mermaid` draw."""

    __slots__ = ("_topology",)
    _topology: TopologyGraph

    def __new__(cls, topology: TopologyGraph, text: str) -> TopologyDescription:
        """The text of a topology."""
        description = super().__new__(cls, text)
        description._topology = topology
        return description

    def to_mermaid(self) -> str:
        """The topology as a Mermaid flowchart, for a fenced block of a Markdown page.

        Topics are stadiums (a shuffle is a hexagon), stores are cylinders, Spark DataFrames boxes with bars; an arrow
        is what records flow along, a dotted line joins a node with a store that it uses.

        Example:
            >>> from hayase import StreamsBuilder
            >>> builder = StreamsBuilder()
            >>> builder.stream("in").to("out")
            >>> print(builder.build().describe().to_mermaid())
            flowchart TD
                subgraph sub0["Sub-topology 0"]
                    node0["KSTREAM-SOURCE-0000000000"]
                    node1["KSTREAM-SINK-0000000001"]
                end
                topic0(["in"])
                topic1(["out"])
                topic0 --> node0
                node0 --> node1
                node1 --> topic1
            <BLANKLINE>
        """
        return to_mermaid(self._topology)

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:
        """What notebooks show: a drawing (JupyterLab draws Mermaid itself), else the text."""
        return {"text/vnd.mermaid": self.to_mermaid(), "text/plain": str(self)}
