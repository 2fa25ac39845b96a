/** A product that one store serves, and a reader of it: what `readOperation` needs, and no more. */
import { CLEAR, type ServingPlugin, type ServingStore, type Target } from '@sluice/sdk'
import type { Principal, TenantCall } from '../../flow.ts'
import type { ServedProduct } from '../served/served-product.ts'
import type { PageBinding, ReadDeps } from './read-endpoint.ts'
import { type OperationRequest, offeredOperations, readOperation } from './read-operation.ts'

export interface Serving {
  readonly type: string
  // biome-ignore lint/suspicious/noExplicitAny: whatever its settings and config are
  readonly plugin: ServingPlugin<any, any>
  // biome-ignore lint/suspicious/noExplicitAny: as above
  readonly store: ServingStore<any>
}

export interface ServedCopy {
  readonly target: Target
  readonly maskedColumns: readonly string[]
}

/**
 * By the classes of the columns the reader, who has no grant, is sent to the masked copy where there is one. `epoch` is what
 * the registry has of the copies.
 */
export function servedBy(
  { type, plugin, store }: Serving,
  copies: readonly ServedCopy[],
  classes: Readonly<Record<string, string>> = {},
  epoch = 1,
): ServedProduct {
  const targets = new Map(
    copies.map(({ target, maskedColumns }) => [
      target.variant,
      {
        plugin,
        store,
        target,
        maskedColumns,
        masks: new Map(maskedColumns.map((column) => [column, 'redact'])),
        version: '1.0.0',
        madeBy: { product: { classification: 'internal' }, output: { ...target.schema, columns: [] } },
        epoch,
        snapshotId: '1',
        committedAt: AT,
        readAt: AT,
        rests: null,
      },
    ]),
  )
  const [{ target }] = copies as [ServedCopy]
  const columns = target.schema.columns.map((column) => ({ ...column, classification: classes[column.name] ?? 'none' }))
  const level = { classification: 'internal', snapshotClassification: 'internal' }
  return {
    ...{ id: 'p1', tenant: 'acme', domain: target.domain, name: target.product, policyVersion: '1', ...level },
    ...{ columns, formerColumns: [], raised: new Map(), grants: [] },
    remaking: { name: target.product, paused: null, toDeploy: [] },
    endpoints: new Map([
      [type, { type, targets, isServed: true, rebuilding: new Set(), coming: new Set(), isSettled: true }],
    ]),
    variants: new Map([
      [CLEAR, { variant: CLEAR, epoch, snapshotId: '1', committedAt: AT, readAt: AT, rests: null, ...UNMASKED }],
    ]),
  } as unknown as ServedProduct
}

const UNMASKED = { maskedColumns: [], masks: new Map() }
const AT = '2026-01-01T00:00:00.000Z'

const viewer = {
  ...{ issuer: 'urn:test', subject: 'vito', groups: ['svc-viewers'] },
  ...{ isAdmin: false, isDeveloper: false, isViewer: true },
} as unknown as Principal

export interface Answered {
  readonly data: readonly Readonly<Record<string, unknown>>[]
  readonly meta: Readonly<Record<string, unknown>>
  readonly next_cursor: string | null
}

/** Cursors are the binding and the position as JSON, so that a test may look into them. */
export async function askedBy(
  serving: Serving,
  product: ServedProduct,
  request: OperationRequest,
  sensitive: readonly string[] = [],
): Promise<Answered> {
  const [offered] = offeredOperations({ servingTypes: () => [serving] })
  if (offered === undefined) throw new Error('the store declares no operation')
  const deps: ReadDeps = {
    rules: { sensitive, strategies: {} } as unknown as ReadDeps['rules'],
    timeoutMs: 20_000,
    find: async () => product,
    forget: () => undefined,
    withCopyAt: async () => null,
    doubt: async () => undefined,
    audit: async () => undefined,
    openCursor: (_, cursor, binding) => opened(cursor, binding),
    sealCursor: (_, position, binding) => JSON.stringify({ binding, position }),
  }
  const call = { principal: viewer, tenant: 'acme', signal: new AbortController().signal } as unknown as TenantCall
  const { json } = await readOperation(offered, call, { reference: 'p1', domain: undefined }, request, deps)
  return JSON.parse(json) as Answered
}

function opened(cursor: string, binding: PageBinding): unknown {
  const sealed = JSON.parse(cursor) as { readonly binding: unknown; readonly position: unknown }
  if (JSON.stringify(sealed.binding) !== JSON.stringify(binding)) throw new Error('the cursor is of another request')
  return sealed.position
}
