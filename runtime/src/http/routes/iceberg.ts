/**
 * The Iceberg REST catalog for readers: what a client asks before and while it reads. Paths, parameters and bodies are
 * those of Iceberg's own specification, so they stand in that document and not in ours.
 */
import { pageOf, parseSigning, referencedOnly } from '@sluice/iceberg'
import type { CatalogDeps } from '../../operations/catalog/deps.ts'
import { fileAccessOf, requireFileAccess, signRead } from '../../operations/catalog/files.ts'
import {
  loadTable,
  namespaceFor,
  namespacesFor,
  openWarehouse,
  requireWarehouse,
  tableExists,
  tablesFor,
} from '../../operations/catalog/read.ts'
import { isUpload, placeOfUpload } from '../../operations/catalog/uploads.ts'
import { defineRoute, type Route } from '../route.ts'
import {
  AnyBody,
  ConfigQuery,
  ICEBERG,
  LoadQuery,
  listReply,
  NAMESPACE,
  NAMESPACES,
  NamespaceParams,
  NamespacesQuery,
  TABLE,
  TableParams,
  type TableSettings,
  TablesQuery,
  tableReply,
  WarehouseParams,
} from './iceberg-shapes.ts'
import { icebergUploads, uploadAddress } from './iceberg-uploads.ts'
import { icebergWrites } from './iceberg-writes.ts'

/** @param address of this server, as clients write it */
export function icebergCatalog(deps: CatalogDeps, address: string): readonly Route[] {
  const settings: TableSettings = ({ prefix, namespace, table }) => {
    const path = ['v1', prefix, 'namespaces', namespace, 'tables', table, 'sign'].map(encodeURIComponent).join('/')
    return fileAccessOf(deps, `${address}/iceberg`, path)
  }
  const routes = [
    ...namespaceRoutes(deps),
    ...tableRoutes(deps, settings),
    signRoute(deps, address),
    ...icebergWrites(deps, settings),
  ]
  const endpoints = routes.map(({ method, path }) => `${method} ${path.slice('/iceberg'.length)}`)
  return [configRoute(deps, endpoints), ...routes, ...icebergUploads(deps), tokenRoute()]
}

/** @param endpoints all that is offered, as the specification writes it: `GET /v1/{prefix}/namespaces` */
function configRoute(deps: CatalogDeps, endpoints: readonly string[]): Route {
  return defineRoute({
    ...ICEBERG,
    method: 'GET',
    path: '/iceberg/v1/config',
    name: 'icebergConfig',
    summary: 'Settings for clients of the Iceberg catalog',
    query: ConfigQuery,
    async handler(call) {
      const prefix = await openWarehouse(deps, call, call.query.warehouse ?? call.tenant)
      return { body: { defaults: {}, overrides: { prefix }, endpoints } }
    },
  })
}

function namespaceRoutes(deps: CatalogDeps): readonly Route[] {
  return [
    defineRoute({
      ...ICEBERG,
      method: 'GET',
      path: NAMESPACES,
      name: 'icebergNamespaces',
      summary: 'Namespaces with tables that the caller may load',
      params: WarehouseParams,
      query: NamespacesQuery,
      async handler(call) {
        requireWarehouse(call, call.params.prefix)
        const { parent, pageToken, pageSize } = call.query
        // No namespace has another one in it.
        if (parent !== undefined && parent !== '') {
          await namespaceFor(deps, call, parent)
          return listReply('namespaces', [], null)
        }
        const { names, nextToken } = pageOf(await namespacesFor(deps, call), pageToken, pageSize)
        return listReply(
          'namespaces',
          names.map((name) => [name]),
          nextToken,
        )
      },
    }),
    defineRoute({
      ...ICEBERG,
      method: 'GET',
      path: NAMESPACE,
      name: 'icebergNamespace',
      summary: 'One namespace',
      params: NamespaceParams,
      async handler(call) {
        const { prefix, namespace } = call.params
        requireWarehouse(call, prefix)
        return { body: { namespace: [namespace], properties: await namespaceFor(deps, call, namespace) } }
      },
    }),
    defineRoute({
      ...ICEBERG,
      method: 'HEAD',
      path: NAMESPACE,
      name: 'icebergNamespaceExists',
      summary: 'Whether a namespace exists',
      params: NamespaceParams,
      async handler(call) {
        requireWarehouse(call, call.params.prefix)
        await namespaceFor(deps, call, call.params.namespace)
        return { empty: true }
      },
    }),
  ]
}

function tableRoutes(deps: CatalogDeps, settings: TableSettings): readonly Route[] {
  return [
    defineRoute({
      ...ICEBERG,
      method: 'GET',
      path: `${NAMESPACE}/tables`,
      name: 'icebergTables',
      summary: 'Tables that the caller may load',
      params: NamespaceParams,
      query: TablesQuery,
      async handler(call) {
        const { prefix, namespace } = call.params
        requireWarehouse(call, prefix)
        const { pageToken, pageSize } = call.query
        const { names, nextToken } = pageOf(await tablesFor(deps, call, namespace), pageToken, pageSize)
        return listReply(
          'identifiers',
          names.map((name) => ({ namespace: [namespace], name })),
          nextToken,
        )
      },
    }),
    defineRoute({
      ...ICEBERG,
      method: 'GET',
      path: TABLE,
      name: 'icebergTable',
      summary: 'A table in the variant of the caller’s clearance',
      params: TableParams,
      query: LoadQuery,
      async handler(call) {
        const { prefix, namespace, table } = call.params
        requireWarehouse(call, prefix)
        requireFileAccess(deps)
        const loaded = await loadTable(deps, call, namespace, table)
        const metadata = call.query.snapshots === 'refs' ? referencedOnly(loaded.metadata) : loaded.metadata
        return tableReply({ ...loaded, metadata }, settings(call.params))
      },
    }),
    defineRoute({
      ...ICEBERG,
      method: 'HEAD',
      path: TABLE,
      name: 'icebergTableExists',
      summary: 'Whether a table exists',
      params: TableParams,
      async handler(call) {
        const { prefix, namespace, table } = call.params
        requireWarehouse(call, prefix)
        await tableExists(deps, call, namespace, table)
        return { empty: true }
      },
    }),
    defineRoute({
      ...ICEBERG,
      method: 'POST',
      path: `${TABLE}/metrics`,
      name: 'icebergMetrics',
      summary: 'Takes a client’s report of a scan or commit, and drops it',
      params: TableParams,
      bodyFormat: 'ignored',
      handler(call) {
        requireWarehouse(call, call.params.prefix)
        return { empty: true }
      },
    }),
  ]
}

/**
 * Of a write it answers where to send it instead: to this server, with the caller's own token, which is held against
 * what holds then.
 */
function signRoute(deps: CatalogDeps, address: string): Route {
  return defineRoute({
    ...ICEBERG,
    method: 'POST',
    path: `${TABLE}/sign`,
    name: 'icebergSign',
    summary: 'Signs the reading of a file of the table, or says where to write one',
    params: TableParams,
    body: AnyBody,
    async handler(call) {
      const { prefix, namespace, table } = call.params
      requireWarehouse(call, prefix)
      const request = parseSigning(call.body)
      if (!isUpload(request)) return { body: await signRead(deps, call, namespace, table, request) }
      const place = await placeOfUpload(deps, call, namespace, table, request)
      const own = { Authorization: call.authorization, 'X-Tenant-Id': call.namedTenant }
      const headers = Object.entries(own).flatMap(([name, value]) => (value === null ? [] : [[name, [value]]]))
      return { body: { uri: uploadAddress(address, call.params, place), headers: Object.fromEntries(headers) } }
    },
  })
}

/** Deprecated by the specification: clients bring a token of the deps's issuer instead. */
function tokenRoute(): Route {
  return defineRoute({
    ...ICEBERG,
    auth: 'none',
    method: 'POST',
    path: '/iceberg/v1/oauth/tokens',
    name: 'icebergToken',
    summary: 'Says that tokens are not issued here',
    bodyFormat: 'ignored',
    handler: () => ({
      status: 400,
      body: {
        error: 'unsupported_grant_type',
        error_description:
          'This catalog issues no tokens. Get one from the deps’s issuer and configure the client with it (token), not with a credential.',
      },
    }),
  })
}
