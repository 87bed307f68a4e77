"""For tests of applications: a driver without Spark and without a broker, and a real broker on loopback."""

from hayase.testing.driver import TopologyTestDriver
from hayase.testing.topics import TestInputTopic, TestOutputTopic, TestRecord

__all__ = ["TestInputTopic", "TestOutputTopic", "TestRecord", "TopologyTestDriver"]
