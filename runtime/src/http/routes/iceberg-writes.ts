/** The Iceberg REST catalog for writers: the sandbox's namespace and tables. */
import {
  parseChange,
  parseCreate,
  parseNamespace,
  parseProperties,
  parseRename,
  parseTransaction,
} from '@sluice/iceberg'
import type { CatalogDeps } from '../../operations/catalog/deps.ts'
import { requireFileAccess } from '../../operations/catalog/files.ts'
import { requireWarehouse } from '../../operations/catalog/read.ts'
import {
  changeNamespace,
  commitTable,
  commitTables,
  createNamespace,
  createTable,
  dropNamespace,
  dropTable,
  renameTable,
} from '../../operations/catalog/write.ts'
import { defineRoute, type Route } from '../route.ts'
import {
  AnyBody,
  DropQuery,
  ICEBERG,
  NAMESPACE,
  NAMESPACES,
  NamespaceParams,
  TABLE,
  TableParams,
  type TableSettings,
  tableReply,
  WAREHOUSE,
  WarehouseParams,
} from './iceberg-shapes.ts'

const COMMIT_TIMEOUT_MS = 120_000

export function icebergWrites(deps: CatalogDeps, settings: TableSettings): readonly Route[] {
  return [...namespaceWrites(deps), ...tableWrites(deps, settings), ...namesAndTransactions(deps)]
}

function namespaceWrites(deps: CatalogDeps): readonly Route[] {
  return [
    defineRoute({
      ...ICEBERG,
      method: 'POST',
      path: NAMESPACES,
      name: 'icebergCreateNamespace',
      summary: 'Makes the sandbox',
      params: WarehouseParams,
      body: AnyBody,
      bodyFormat: 'exact-json',
      async handler(call) {
        requireWarehouse(call, call.params.prefix)
        const { namespace, properties = {} } = parseNamespace(call.body)
        await createNamespace(deps, call, namespace, properties)
        return { body: { namespace, properties } }
      },
    }),
    defineRoute({
      ...ICEBERG,
      method: 'DELETE',
      path: NAMESPACE,
      name: 'icebergDropNamespace',
      summary: 'Removes the empty sandbox',
      params: NamespaceParams,
      async handler(call) {
        requireWarehouse(call, call.params.prefix)
        await dropNamespace(deps, call, call.params.namespace)
        return { empty: true }
      },
    }),
    defineRoute({
      ...ICEBERG,
      method: 'POST',
      path: `${NAMESPACE}/properties`,
      name: 'icebergChangeNamespace',
      summary: 'Sets and removes properties of the sandbox',
      params: NamespaceParams,
      body: AnyBody,
      bodyFormat: 'exact-json',
      async handler(call) {
        requireWarehouse(call, call.params.prefix)
        const { updates = {}, removals = [] } = parseProperties(call.body)
        return { body: await changeNamespace(deps, call, call.params.namespace, updates, removals) }
      },
    }),
  ]
}

function tableWrites(deps: CatalogDeps, settings: TableSettings): readonly Route[] {
  return [
    defineRoute({
      ...ICEBERG,
      method: 'POST',
      path: `${NAMESPACE}/tables`,
      name: 'icebergCreateTable',
      summary: 'Makes a table, or stages its making',
      params: NamespaceParams,
      body: AnyBody,
      bodyFormat: 'exact-json',
      async handler(call) {
        requireWarehouse(call, call.params.prefix)
        const request = parseCreate(call.body)
        requireFileAccess(deps)
        const created = await createTable(deps, call, call.params.namespace, request)
        return tableReply(created, settings({ ...call.params, table: request.name }))
      },
    }),
    defineRoute({
      ...ICEBERG,
      method: 'POST',
      path: TABLE,
      name: 'icebergCommit',
      summary: 'Changes a table whose state is as the client requires',
      params: TableParams,
      body: AnyBody,
      bodyFormat: 'exact-json',
      timeoutMs: COMMIT_TIMEOUT_MS,
      async handler(call) {
        const { prefix, namespace, table } = call.params
        requireWarehouse(call, prefix)
        return tableReply(await commitTable(deps, call, namespace, table, parseChange(call.body)), {})
      },
    }),
    defineRoute({
      ...ICEBERG,
      method: 'DELETE',
      path: TABLE,
      name: 'icebergDropTable',
      summary: 'Removes a table with its files, also where no purge is asked for',
      params: TableParams,
      query: DropQuery,
      async handler(call) {
        const { prefix, namespace, table } = call.params
        requireWarehouse(call, prefix)
        await dropTable(deps, call, namespace, table)
        return { empty: true }
      },
    }),
  ]
}

function namesAndTransactions(deps: CatalogDeps): readonly Route[] {
  return [
    defineRoute({
      ...ICEBERG,
      method: 'POST',
      path: `${WAREHOUSE}/tables/rename`,
      name: 'icebergRename',
      summary: 'Gives a table another name',
      params: WarehouseParams,
      body: AnyBody,
      bodyFormat: 'exact-json',
      async handler(call) {
        requireWarehouse(call, call.params.prefix)
        const { source, destination } = parseRename(call.body)
        await renameTable(deps, call, source, destination)
        return { empty: true }
      },
    }),
    defineRoute({
      ...ICEBERG,
      method: 'POST',
      path: `${WAREHOUSE}/transactions/commit`,
      name: 'icebergTransaction',
      summary: 'Changes several tables, or none',
      params: WarehouseParams,
      body: AnyBody,
      bodyFormat: 'exact-json',
      timeoutMs: COMMIT_TIMEOUT_MS,
      async handler(call) {
        requireWarehouse(call, call.params.prefix)
        await commitTables(deps, call, parseTransaction(call.body))
        return { empty: true }
      },
    }),
  ]
}
