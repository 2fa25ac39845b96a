import type { Host } from '@sluice/sdk'
import cassandra from 'cassandra-driver'

/** Of the host's randomness, which the suite seeds. */
export function randomUuid(host: Host): cassandra.types.Uuid {
  return new cassandra.types.Uuid(Buffer.from(host.randomBytes(16)))
}
