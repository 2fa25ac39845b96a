/**
 * What all reads of one endpoint by one reader have in common. It is worked out once for a product as it was loaded, and
 * goes with it: the next load, a few seconds or one change of policy later, starts anew.
 */
import { hash } from 'node:crypto'
import { type KeyTemplate, parseKeyTemplate, type ReadPolicy, SluiceError, type TableSchema } from '@sluice/sdk'
import type { Principal } from '../../flow.ts'
import { type ContractConfig, contractConfig } from '../../manifest/contract-config.ts'
import type { MaskingRules } from '../../policy/masking.ts'
import { accessToCopy } from '../served/access-to-copy.ts'
import {
  type ReadAccess,
  refuseStaleMask,
  type ServedProduct,
  type ServedTarget,
  servedTarget,
} from '../served/served-product.ts'

export type EndpointType = 'lookup' | 'timeseries' | 'realtime'

/** Of which endpoint is read, and how. */
export interface AskedView {
  /** One of `EndpointType`, or a type of a plugin of others. */
  readonly type: string
  /** Of a kept aggregate. */
  readonly interval?: string | undefined
  /** One that the type's plugin declares. */
  readonly operation?: string
}

export class ReadView {
  readonly product: ServedProduct
  readonly access: ReadAccess
  readonly served: ServedTarget
  /** The columns that a read may name: the dataset's, and what its endpoint adds. */
  readonly schema: TableSchema
  readonly policy: ReadPolicy
  /** Of an endpoint whose rows lie under keys; null for others. */
  readonly keyTemplate: KeyTemplate | null
  #marks: EpochMarks | null = null

  constructor(product: ServedProduct, asked: AskedView, access: ReadAccess) {
    this.product = product
    this.access = access
    this.served = servedTarget(product, asked.type, access)
    refuseStaleMask(product, access.masks, this.served.masks)
    this.schema = schemaOf(asked, this.served)
    this.policy = policyFor(this.schema, product, access, this.served)
    const template = parseKeyTemplate(this.config.key_template ?? '')
    this.keyTemplate = 'problem' in template ? null : template
  }

  get config(): ContractConfig {
    return contractConfig(this.served.plugin.type, this.served.target.config)
  }

  /** What answers say of themselves. */
  get marks(): EpochMarks {
    this.#marks ??= marksOf(this)
    return this.#marks
  }
}

export interface EpochMarks {
  /** The members of `meta` that all answers share, as JSON without the closing brace. */
  readonly metaJson: string
  /** Since when the rows are, that it has. */
  readonly readAt: string
  /** Tells apart what two answers to the same request may differ by; shows nothing of any value. */
  readonly etagSeed: string
}

const views = new WeakMap<ServedProduct, WeakMap<Principal, Map<string, ReadView>>>()
/** Intervals come from requests; none but those that are kept make a view. */
const MAX_VIEWS = 50

/** Throws what `accessTo`, `servedTarget` and `refuseStaleMask` throw, and INVALID_DATA `interval_not_kept`. */
export function viewOf(product: ServedProduct, principal: Principal, asked: AskedView, rules: MaskingRules): ReadView {
  const { type, interval, operation } = asked
  const known = viewsOf(product, principal)
  const key = interval === undefined && operation === undefined ? type : JSON.stringify([type, interval, operation])
  const view = known.get(key)
  if (view) return view
  const endpoint = product.endpoints.get(type)
  const access = accessToCopy(product, endpoint, principal, rules)
  const made = new ReadView(product, asked, access)
  if (known.size >= MAX_VIEWS) known.clear()
  known.set(key, made)
  return made
}

function viewsOf(product: ServedProduct, principal: Principal): Map<string, ReadView> {
  let ofProduct = views.get(product)
  if (!ofProduct) views.set(product, (ofProduct = new WeakMap()))
  let ofPrincipal = ofProduct.get(principal)
  if (!ofPrincipal) ofProduct.set(principal, (ofPrincipal = new Map()))
  return ofPrincipal
}

function schemaOf({ type, interval, operation: declared }: AskedView, served: ServedTarget): TableSchema {
  const { schema, config } = served.target
  const { include_columns: included } = contractConfig(type, config)
  if (declared !== undefined) {
    const { adds = [] } = served.plugin.capabilities.declared?.[declared] ?? {}
    const kept = schema.columns.filter(({ name }) => included?.includes(name) ?? true)
    return { ...schema, columns: [...kept, ...adds] }
  }
  if (type === 'realtime' && included) {
    return { columns: schema.columns.filter((column) => included.includes(column.name)), primaryKey: [] }
  }
  const operation = type === 'lookup' ? 'get' : interval === undefined ? 'range' : 'aggregate'
  const asked = interval === undefined ? { operation } : { operation, interval }
  const columns = served.plugin.readColumns?.(config, schema, asked as Parameters<typeof served.plugin.readColumns>[2])
  if (columns === null) throw intervalNotKept(contractConfig(type, config))
  return { ...schema, columns: columns ?? schema.columns }
}

function intervalNotKept({ continuous_aggregates: aggregates = [] }: ContractConfig): SluiceError {
  return new SluiceError('INVALID_DATA', 'no continuous aggregate of that interval is kept', {
    code: 'interval_not_kept',
    remedy: `Intervals kept: ${aggregates.map((candidate) => candidate.interval).join(', ') || 'none'}.`,
  })
}

function policyFor(schema: TableSchema, product: ServedProduct, access: ReadAccess, served: ServedTarget): ReadPolicy {
  const names = schema.columns.map((column) => column.name)
  return {
    version: product.policyVersion,
    rows: { op: 'all' },
    claims: {},
    visibleColumns: names,
    maskedColumns: maskedOf(names, [...access.masks.map((mask) => mask.column), ...served.maskedColumns]),
  }
}

/** A former value is masked with its column. */
function maskedOf(names: readonly string[], masked: readonly string[]): readonly string[] {
  return names.filter((name) => masked.includes(name) || masked.includes(name.replace(/^previous_/, '')))
}

function marksOf({ product, served, access, policy }: ReadView): EpochMarks {
  const { epoch, readAt, version } = served
  const meta = {
    product: product.name,
    namespace: product.domain,
    version,
    epoch,
    snapshot_id: served.snapshotId,
    as_of: served.committedAt,
    masked_columns: maskedOf(policy.visibleColumns, served.maskedColumns),
    store: `${served.plugin.type}:${served.plugin.name}`,
  }
  const identity = [product.tenant, product.id, product.policyVersion, access.variant, epoch, version]
  const etagSeed = hash('sha256', JSON.stringify(identity), 'base64url').slice(0, 22)
  return { readAt, metaJson: JSON.stringify(meta).slice(0, -1), etagSeed }
}
