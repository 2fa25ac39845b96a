/**
 * The Iceberg catalog for writers: developers of the tenant make and change plain tables of its sandbox. Tables of
 * products change by materialization alone, because a commit to one would pass neither checks nor masks.
 */
import type { CreateRequest, IdentifierOf, TableChange, TableRef } from '@sluice/iceberg'
import { isSluiceError, SluiceError } from '@sluice/sdk'
import type { CommittedTable, Witness } from '../../catalog/sandbox.ts'
import type { TenantCall } from '../../flow.ts'
import { SANDBOX } from '../../lake/tenant-layout.ts'
import { audited } from '../audit.ts'
import { requireDeveloper } from '../permissions.ts'
import { checkStorage } from '../tenants/tenants.ts'
import type { CatalogDeps } from './deps.ts'
import { namespaceNotFound, tableNotFound } from './errors.ts'
import { namespaceFor } from './read.ts'

/** Throws CONFLICT `catalog_namespace_exists`, INVALID_DATA `catalog_read_only` for any name but the sandbox's. */
export async function createNamespace(
  platform: CatalogDeps,
  call: TenantCall,
  namespace: readonly string[],
  properties: Readonly<Record<string, string>>,
): Promise<void> {
  requireDeveloper(call.principal)
  if (namespace.length !== 1 || namespace[0] !== SANDBOX) throw readOnly('namespaces come from products')
  await platform.sandbox.open(call.tenant, properties, witness(call, 'sandbox.create', SANDBOX))
}

export async function dropNamespace(platform: CatalogDeps, call: TenantCall, namespace: string): Promise<void> {
  await requireSandbox(platform, call, namespace)
  await platform.sandbox.close(call.tenant, witness(call, 'sandbox.delete', SANDBOX))
}

export interface PropertiesChange {
  readonly updated: readonly string[]
  readonly removed: readonly string[]
  readonly missing: readonly string[]
}

export async function changeNamespace(
  platform: CatalogDeps,
  call: TenantCall,
  namespace: string,
  updates: Readonly<Record<string, string>>,
  removals: readonly string[],
): Promise<PropertiesChange> {
  await requireSandbox(platform, call, namespace)
  const both = removals.find((name) => Object.hasOwn(updates, name))
  if (both !== undefined) throw unprocessable('a property is to be set and removed at once')
  const known = (await platform.sandbox.properties(call.tenant)) ?? {}
  const [removed, missing] = [removals.filter((name) => name in known), removals.filter((name) => !(name in known))]
  const changes = { ...updates, ...Object.fromEntries(removed.map((name) => [name, null])) }
  await platform.sandbox.change(call.tenant, changes, witness(call, 'sandbox.change', SANDBOX))
  return { updated: Object.keys(updates), removed, missing }
}

export async function createTable(
  platform: CatalogDeps,
  call: TenantCall,
  namespace: string,
  request: CreateRequest,
): Promise<CommittedTable> {
  await requireSandbox(platform, call, namespace)
  await requireRoom(platform, call)
  return platform.sandbox.create(call.tenant, request, witness(call, 'sandbox.table.create', request.name), call.signal)
}

export async function commitTable(
  platform: CatalogDeps,
  call: TenantCall,
  namespace: string,
  table: string,
  change: TableChange,
): Promise<CommittedTable> {
  const [committed] = await commitTables(platform, call, [
    { ...change, identifier: { namespace: [namespace], name: table } },
  ])
  return committed as CommittedTable
}

/** All changes in one transaction. */
export async function commitTables(
  platform: CatalogDeps,
  call: TenantCall,
  changes: readonly (TableChange & { readonly identifier: IdentifierOf })[],
): Promise<readonly CommittedTable[]> {
  const refs: TableRef[] = []
  for (const { identifier } of changes) refs.push(await sandboxRef(platform, call, identifier))
  if (new Set(refs.map(({ table }) => table)).size !== refs.length) {
    throw unprocessable('a transaction changes each table once')
  }
  // A full tenant may still expire snapshots and change properties.
  if (changes.some(({ updates }) => updates.some(({ action }) => action === 'add-snapshot'))) {
    await requireRoom(platform, call)
  }
  return platform.sandbox.commit(
    changes.map(({ requirements, updates }, at) => ({ ref: refs[at] as TableRef, requirements, updates })),
    tableNotFound,
    witness(
      call,
      'sandbox.table.commit',
      refs
        .map(({ table }) => table)
        .join(' ')
        .slice(0, 500),
    ),
    call.signal,
  )
}

export async function renameTable(
  platform: CatalogDeps,
  call: TenantCall,
  source: IdentifierOf,
  destination: IdentifierOf,
): Promise<void> {
  const from = await sandboxRef(platform, call, source)
  const to = await sandboxRef(platform, call, destination)
  await platform.sandbox.rename(from, to.table, tableNotFound, witness(call, 'sandbox.table.rename', from.table))
}

export async function dropTable(
  platform: CatalogDeps,
  call: TenantCall,
  namespace: string,
  table: string,
): Promise<void> {
  const ref = await sandboxRef(platform, call, { namespace: [namespace], name: table })
  await platform.sandbox.drop(ref, tableNotFound, witness(call, 'sandbox.table.drop', table), call.signal)
}

async function sandboxRef(
  platform: CatalogDeps,
  call: TenantCall,
  { namespace, name }: IdentifierOf,
): Promise<TableRef> {
  if (namespace.length !== 1) throw namespaceNotFound()
  await requireSandbox(platform, call, namespace[0] as string)
  return { warehouse: call.tenant, namespace: SANDBOX, table: name }
}

async function requireSandbox(platform: CatalogDeps, call: TenantCall, namespace: string): Promise<void> {
  requireDeveloper(call.principal)
  await namespaceFor(platform, call, namespace)
  if (namespace !== SANDBOX) throw readOnly('tables of products change by materialization alone')
}

/** A conflict would be tried again by clients, for nothing. */
async function requireRoom(platform: CatalogDeps, call: TenantCall): Promise<void> {
  try {
    await checkStorage(platform, call.tenant)
  } catch (error) {
    if (!isSluiceError(error, 'QUOTA')) throw error
    throw new SluiceError('PERMISSION', error.message, {
      code: 'catalog_storage_full',
      remedy: 'Drop tables, products or snapshots, or ask an administrator for a higher tier.',
      ...(error.details === undefined ? {} : { details: error.details }),
    })
  }
}

function witness(call: TenantCall, action: string, table: string): Witness {
  return (tx) => audited(tx, call, call.tenant, action, { type: 'table', id: `${SANDBOX}.${table}`.slice(0, 500) })
}

function readOnly(reason: string): SluiceError {
  return new SluiceError('INVALID_DATA', `only the namespace "sandbox" is changed through the catalog: ${reason}`, {
    code: 'catalog_read_only',
    remedy: 'Change a product by its manifests and sources; write your own tables into the namespace "sandbox".',
  })
}

function unprocessable(reason: string): SluiceError {
  return new SluiceError('INVALID_DATA', `the request contradicts itself: ${reason}`, {
    code: 'catalog_request_contradictory',
    remedy: 'Send two requests.',
  })
}
