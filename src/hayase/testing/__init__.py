"""For tests of applications.

A driver without Spark and without a broker, a schema registry, and a real broker on loopback.
"""

from hayase.testing.driver import TopologyTestDriver
from hayase.testing.schema_registry import SchemaRegistryServer
from hayase.testing.topics import TestInputTopic, TestOutputTopic, TestRecord

__all__ = ["SchemaRegistryServer", "TestInputTopic", "TestOutputTopic", "TestRecord", "TopologyTestDriver"]
