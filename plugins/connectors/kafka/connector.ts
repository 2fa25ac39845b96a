/** What the runtime asks of a cluster; each call has lines of its own, and closes them. */
import type { Connector, ConnectorHost } from '@sluice/sdk'
import { checked } from './check.ts'
import { ClusterClient } from './cluster.ts'
import { listed } from './discover.ts'
import { aborted, kafkaFailure } from './failure.ts'
import { readTopic } from './read.ts'
import { Registry } from './registry/schemas.ts'
import type { KafkaSource } from './settings.ts'

export function createConnector(source: KafkaSource, host: ConnectorHost): Connector {
  const closed = new AbortController()
  const registry = source.registry === null ? null : new Registry(source.registry, host)
  const withClient = async <T>(
    caller: AbortSignal,
    call: (client: ClusterClient, signal: AbortSignal) => Promise<T>,
  ): Promise<T> => {
    const client = new ClusterClient(source.cluster, host)
    const signal = AbortSignal.any([caller, closed.signal])
    try {
      return await call(client, signal)
    } catch (error) {
      throw signal.aborted ? aborted(signal.reason) : kafkaFailure(error, 'reading the cluster')
    } finally {
      client.close()
    }
  }
  return {
    check: (caller) => withClient(caller, (client, signal) => checked(source, client, registry, host, signal)),
    discover: (page, caller) =>
      withClient(caller, (client, signal) => listed(source, client, registry, page, host.logger, signal)),
    read: async function* (request) {
      const client = new ClusterClient(source.cluster, host)
      const signal = AbortSignal.any([request.signal, closed.signal])
      try {
        yield* readTopic(source, client, registry, { ...request, signal })
      } catch (error) {
        throw signal.aborted ? aborted(signal.reason) : kafkaFailure(error, 'reading the topic')
      } finally {
        client.close()
      }
    },
    // Offsets are kept by the runtime, with the rows: a cluster hears nothing of them.
    ack: async () => undefined,
    close: async () => closed.abort(),
  }
}
