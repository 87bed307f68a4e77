"""What Spark imports where it looks for sources: modules whose names begin with `pyspark_`.

It does so in a worker that never imports Hayase's source, and leaves it idle until the JVM closes the connection.
"""

from hayase.runtime.worker.plain_daemon import hide_errors_after_jvm_exit

hide_errors_after_jvm_exit()
