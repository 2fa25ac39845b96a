/**
 * How tables and products are named as datasets of OpenLineage. A product is `NAMESPACE.NAME`, a table of a connection
 * `CONNECTION/SCHEMA.TABLE`, both in the tenant's own namespace. Where the operator has hosts told, tables of servers are
 * named as the specification says (docs/spec/naming), so that they are those that other producers tell of.
 */
import { qualified } from '../../../manifest/context.ts'
import type { Connection } from '../../../registry/connections.ts'
import type { LinkedSource } from '../../../registry/lineage.ts'
import { PRODUCTS } from '../../../registry/product-sources.ts'

export interface DatasetName {
  readonly namespace: string
  readonly name: string
}

export interface Naming {
  /** `openlineage.namespace` of the configuration. */
  readonly prefix: string
  readonly tenant: string
  /** Those whose hosts are told, by name. */
  readonly told: ReadonlyMap<string, Pick<Connection, 'connectorType' | 'config'>>
}

/** Of the tenant's jobs and datasets. */
export function ownNamespace({ prefix, tenant }: Pick<Naming, 'prefix' | 'tenant'>): string {
  return `${prefix}/${tenant}`
}

export function datasetOf(naming: Naming, source: LinkedSource): DatasetName {
  const { connection, table } = source
  if (connection === PRODUCTS) return { namespace: ownNamespace(naming), name: table }
  return tableOfServer(naming, source) ?? { namespace: ownNamespace(naming), name: `${connection}/${qualified(table)}` }
}

/** By connector type: the scheme, and the port where the connection names none. */
const SERVERS: Readonly<
  Record<string, { readonly scheme: string; readonly port: number; readonly hasSchemas: boolean }>
> = {
  postgresql: { scheme: 'postgres', port: 5432, hasSchemas: true },
  mariadb: { scheme: 'mysql', port: 3306, hasSchemas: false },
}

function tableOfServer({ told }: Naming, { connection, table }: LinkedSource): DatasetName | null {
  const found = told.get(connection)
  const server = found && SERVERS[found.connectorType]
  if (server === undefined) return null
  const { host, port, database } = found?.config ?? {}
  if (typeof host !== 'string' || typeof database !== 'string') return null
  const at = host.includes(':') ? `[${host}]` : host
  const namespace = `${server.scheme}://${at}:${typeof port === 'number' ? port : server.port}`
  // What these servers call a schema is a database.
  const name = server.hasSchemas
    ? `${database}.${qualified(table)}`
    : table.includes('.')
      ? table
      : `${database}.${table}`
  return { namespace, name }
}
