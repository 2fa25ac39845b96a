/**
 * A class that is given to a source's column reaches what was made of it before, in any product and any version. See
 * docs/decisions/0080-raised-classes.md.
 */
import { isSluiceError, SluiceError } from '@sluice/sdk'
import { appendEvent } from '../../events/outbox.ts'
import type { TenantCall } from '../../flow.ts'
import { fullNameOf } from '../../ingestion/product-outcome.ts'
import { SANDBOX } from '../../lake/tenant-layout.ts'
import { qualified } from '../../manifest/context.ts'
import type { ManifestSet } from '../../manifest/manifest-set.ts'
import { isSensitive } from '../../policy/masking.ts'
import { actorOf } from '../../registry/actor.ts'
import { findConnectionByName } from '../../registry/connections.ts'
import { PRODUCTS } from '../../registry/product-sources.ts'
import type { Product } from '../../registry/products.ts'
import { type NewRaisedColumn, raisedColumnsOfTenant, saveRaisedColumns } from '../../registry/raised-classes.ts'
import { productColumn, rawClasses, rawClassesOf } from '../../registry/raw-classes.ts'
import type { Queryable, Transaction } from '../../registry/sql.ts'
import { type ReadingVersion, versionsReading } from '../../registry/versions.ts'
import { ownsConnection } from '../rights/raw-rights.ts'
import { type ColumnOrigin, classesOf, type HiddenColumns, laundered, ownClasses } from './column-classes.ts'
import type { DeployDeps } from './deps.ts'
import { conceded, strictly } from './judged-columns.ts'

/** A product that has columns which depend on raw columns that are hidden from now on. */
export interface Reached {
  readonly productId: string
  readonly product: string
  readonly namespace: string
  readonly columns: readonly { readonly name: string; readonly classification: string }[]
  /** Whether readers without those classes are refused until it is deployed anew. */
  readonly isBlocked: boolean
  /** False: versions of the past alone have such columns. */
  readonly isInService: boolean
}

export interface Reach {
  readonly products: readonly Reached[]
  /** Of all versions. */
  readonly columns: readonly NewRaisedColumn[]
  readonly raised: Classes
  /** Versions that were looked at; no others may be there when this is kept. */
  readonly seen: ReadonlySet<string>
  readonly connections: readonly string[]
}

type Classes = ReadonlyMap<string, readonly string[]>
type Version = ReadingVersion<ManifestSet, readonly ColumnOrigin[]>

/** What the classes that these manifests give reach, besides themselves. Reads no row. */
export async function reachOf(
  platform: DeployDeps,
  call: TenantCall,
  product: Product,
  manifests: ManifestSet,
  origins: readonly ColumnOrigin[] | null,
): Promise<Reach> {
  const given = onlySensitive(platform, new Map([...classesOf(manifests, origins), ...ownClasses(manifests)]))
  const raised = new Map(await raisedBy(platform, product, given))
  const confirmed = await confirmedBy(platform, call, product.tenant, given)
  const named = [...raised.keys(), ...confirmed.flatMap(({ rawColumns }) => rawColumns)]
  // What is reached may be what other products are made of.
  const connections = named.length === 0 ? [] : [...new Set([...named.map((raw) => partsOf(raw).connection), PRODUCTS])]
  const versions =
    connections.length === 0
      ? []
      : await versionsReading<ManifestSet, readonly ColumnOrigin[]>(platform.pool, product.tenant, connections)
  const columns: NewRaisedColumn[] = [...confirmed]
  const owned = new Set([fullNameOf(manifests.product)])
  for (const [raw, classes] of below(confirmed, versions, raised, owned)) raised.set(raw, classes)
  for (let next: Classes = raised; next.size > 0; ) {
    const found: NewRaisedColumn[] = []
    for (const version of versions.filter((one) => readsAny(one, next))) {
      const isOwn = version.productId === product.id
      if (isOwn && version.digest === manifests.digest) continue
      const reached = await reachedIn(platform, call, product, version, next, owned)
      // Of columns that the product still has, the class of today counts for its past, too.
      found.push(
        ...reached.filter(({ column }) => !isOwn || !manifests.output.columns.some(({ name }) => name === column)),
      )
    }
    columns.push(...found)
    next = below(found, versions, raised, owned)
    for (const [raw, classes] of next) raised.set(raw, [...(raised.get(raw) ?? []), ...classes])
  }
  return {
    products: productsOf(
      columns.filter(({ productId }) => productId !== product.id),
      versions,
    ),
    columns,
    raised,
    seen: new Set(versions.map(keyOf)),
    connections,
  }
}

/**
 * What was reached of versions in service, as columns that other products are made of; without what is `known` already. The
 * names of those that are hidden by it come to `owned`: what is made of them is hidden in the same way.
 */
function below(
  found: readonly NewRaisedColumn[],
  versions: readonly Version[],
  known: Classes,
  owned: Set<string>,
): Classes {
  const next = new Map<string, readonly string[]>()
  for (const { productId, digest, column, classification, blocks } of found) {
    const version = versions.find((one) => one.productId === productId && one.digest === digest)
    if (version === undefined || !version.isInService) continue
    const name = `${version.namespace}.${version.product}`
    if (blocks) owned.add(name)
    const raw = productColumn(name, column)
    if (known.get(raw)?.includes(classification)) continue
    next.set(raw, [...new Set([...(next.get(raw) ?? []), classification])])
  }
  return next
}

const keyOf = ({ productId, digest }: Pick<Version, 'productId' | 'digest'>): string => `${productId} ${digest}`

function partsOf(raw: string): { readonly connection: string; readonly table: string } {
  const [connection, table] = JSON.parse(raw) as readonly [string, string, string]
  return { connection, table }
}

function onlySensitive({ rules }: Pick<DeployDeps, 'rules'>, classes: Classes): Classes {
  const kept = [...classes].map(([raw, names]) => [raw, names.filter((name) => isSensitive(name, rules))] as const)
  return new Map(kept.filter(([, names]) => names.length > 0))
}

/**
 * Of the classes given: those of raw columns that nothing hid, and those that this product gives instead of another. One
 * beside another one raises nothing, for who is cleared for that sees the column already.
 */
async function raisedBy(platform: DeployDeps, product: Product, given: Classes): Promise<Classes> {
  const said = onlySensitive(platform, await rawClasses(platform.pool, product.tenant))
  const name = fullNameOf(product)
  const isOwn = ({ connection, table }: ReturnType<typeof partsOf>) => connection === PRODUCTS && table === name
  const ownColumns = [...said].filter(([raw]) => isOwn(partsOf(raw)))
  const own = new Map([...onlySensitive(platform, await rawClassesOf(platform.pool, product.id)), ...ownColumns])
  const raised = [...given].map(([raw, names]) => {
    const before = own.get(raw) ?? []
    const isReplaced = before.some((name) => !names.includes(name))
    const news = said.has(raw) && !isReplaced ? [] : names.filter((name) => !before.includes(name))
    return [raw, news] as const
  })
  return new Map(raised.filter(([, names]) => names.length > 0))
}

/** What somebody raised who could not hide it from others, and is raised by the owner of the source now. */
async function confirmedBy(
  platform: DeployDeps,
  call: TenantCall,
  tenant: string,
  given: Classes,
): Promise<readonly NewRaisedColumn[]> {
  const open = (await raisedColumnsOfTenant(platform.pool, tenant)).filter(({ blocks }) => !blocks)
  const confirmed: NewRaisedColumn[] = []
  for (const one of open) {
    const isGiven = one.rawColumns.every((raw) => given.get(raw)?.includes(one.classification))
    if (isGiven && (await ownsAll(platform, call, tenant, one.rawColumns))) confirmed.push({ ...one, blocks: true })
  }
  return confirmed
}

function readsAny({ normalised }: Version, raised: Classes): boolean {
  const tables = new Set([...raised.keys()].map((raw) => JSON.stringify(partsOf(raw))))
  return normalised.inputs.some(({ connection, table }) =>
    tables.has(JSON.stringify({ connection, table: qualified(table) })),
  )
}

async function reachedIn(
  platform: DeployDeps,
  call: TenantCall,
  product: Product,
  version: Version,
  raised: Classes,
  owned: ReadonlySet<string>,
): Promise<readonly NewRaisedColumn[]> {
  const found: NewRaisedColumn[] = []
  for (const classification of new Set([...raised.values()].flat())) {
    const isRead = (raw: string) => readsAny(version, new Map([[raw, []]]))
    const rawColumns = [...raised]
      .filter(([raw, names]) => names.includes(classification) && isRead(raw))
      .map(([raw]) => raw)
    if (rawColumns.length === 0) continue
    const hidden: HiddenColumns = new Map(rawColumns.map((raw) => [raw, [classification]]))
    const columns = await showing(platform, call, version, hidden)
    if (columns.length === 0) continue
    const blocks = await ownsAll(platform, call, product.tenant, rawColumns, owned)
    const about = { productId: version.productId, digest: version.digest, classification, rawColumns, blocks }
    found.push(
      ...columns.map((column) => ({ ...about, column, raisedIn: product.id, raisedBy: actorOf(call.principal) })),
    )
  }
  return found
}

/** Where it is not known what columns are made of, all of them may show it. */
async function showing(
  platform: DeployDeps,
  call: TenantCall,
  { normalised, origins }: Version,
  hidden: HiddenColumns,
): Promise<readonly string[]> {
  const unasked = new Map()
  const strict = origins ?? (await couldBe(() => strictly(platform, call, normalised, unasked)))
  const columns = laundered(platform, normalised, strict, hidden)
  if (columns.length === 0 || strict === null) return columns
  const open = await couldBe(() => conceded(platform, call, normalised, unasked, hidden))
  if (open === null) return columns
  // The source is not asked which keys it enforces, as it was then: conceding adds nothing.
  return laundered(platform, normalised, open, hidden).filter((name) => columns.includes(name))
}

/** Null where its tables are no longer what it was written for. */
async function couldBe<T>(judging: () => Promise<T>): Promise<T | null> {
  try {
    return await judging()
  } catch (error) {
    if (isSluiceError(error) && error.kind === 'INVALID_DATA') return null
    throw error
  }
}

async function ownsAll(
  { pool }: Pick<DeployDeps, 'pool'>,
  { principal }: TenantCall,
  tenant: string,
  rawColumns: readonly string[],
  /** `namespace.name` of products whose columns may be hidden from others: the one that is deployed, and those made of it. */
  owned: ReadonlySet<string> = new Set(),
): Promise<boolean> {
  if (principal.isAdmin) return true
  const parts = rawColumns.map(partsOf)
  if (parts.some(({ connection, table }) => connection === PRODUCTS && !owned.has(table))) return false
  const connections = new Set(parts.map(({ connection }) => connection))
  connections.delete(PRODUCTS)
  for (const name of connections) {
    const connection = name === SANDBOX ? null : await findConnectionByName(pool, tenant, name)
    if (connection === null || !ownsConnection(principal, connection)) return false
  }
  return true
}

function productsOf(columns: readonly NewRaisedColumn[], versions: readonly Version[]): readonly Reached[] {
  const names = new Map(versions.map((version) => [version.productId, version]))
  const inService = new Set(versions.filter(({ isInService }) => isInService).map(keyOf))
  return [...Map.groupBy(columns, ({ productId }) => productId)].flatMap(([productId, own]) => {
    const known = names.get(productId)
    if (known === undefined) return []
    const served = own.filter((one) => inService.has(keyOf(one)))
    const told = served.length > 0 ? served : own
    const pairs = new Map(
      told.map(({ column: name, classification }) => [`${name} ${classification}`, { name, classification }]),
    )
    return {
      productId,
      product: known.product,
      namespace: known.namespace,
      columns: [...pairs.values()],
      isBlocked: told.some(({ blocks }) => blocks),
      isInService: served.length > 0,
    }
  })
}

/** For the plan. */
export function reachNote({ product, namespace, columns, isBlocked, isInService }: Reached): string {
  const named = columns.map(({ name, classification }) => `${name} (${classification})`).join(', ')
  const what = isInService ? `${namespace}.${product} was` : `past versions of ${namespace}.${product} were`
  const then = isBlocked
    ? 'readers without that class are refused until it is deployed anew'
    : 'it is told to whoever follows it, and goes on until the owner of the source raises the class'
  return `${what} made of what this version hides: ${named}; ${then}`
}

/**
 * Keeps it, and tells whoever follows the products. In the transaction of what raises, after `lockClasses`. Throws CONFLICT
 * `classes_changed` where a version was deployed meanwhile that nobody has looked at.
 */
export async function keepReach(tx: Transaction, call: TenantCall, product: Product, reach: Reach): Promise<void> {
  if (reach.raised.size > 0) {
    const now = await versionsReading<ManifestSet, readonly ColumnOrigin[]>(tx, product.tenant, reach.connections)
    const isNew = (version: Version) => readsAny(version, reach.raised) && !reach.seen.has(keyOf(version))
    if (now.some((version) => version.productId !== product.id && isNew(version))) throw classesChanged()
  }
  await saveRaisedColumns(tx, product.tenant, reach.columns)
  for (const reached of reach.products) {
    await appendEvent(tx, {
      tenant: product.tenant,
      kind: 'deployment',
      name: 'class_raised',
      subject: reached.productId,
      traceparent: call.traceparent,
      data: {
        product: reached.product,
        namespace: reached.namespace,
        columns: reached.columns,
        blocked: reached.isBlocked,
        raised_in: `${product.domain}.${product.name}`,
      },
    })
  }
}

/** Throws CONFLICT `classes_changed` where columns that the manifests read are hidden by now that were not when they were judged. */
export async function requireSameClasses(
  db: Queryable,
  platform: Pick<DeployDeps, 'rules'>,
  tenant: string,
  { inputs }: ManifestSet,
  judged: HiddenColumns,
): Promise<void> {
  const now = onlySensitive(platform, await rawClasses(db, tenant))
  const isRead = (raw: string) => {
    const { connection, table } = partsOf(raw)
    return inputs.some((input) => input.connection === connection && qualified(input.table) === table)
  }
  if ([...now.keys()].some((raw) => isRead(raw) && !judged.has(raw))) throw classesChanged()
}

function classesChanged(): SluiceError {
  return new SluiceError('CONFLICT', 'classes of the same source were changed at the same time', {
    code: 'classes_changed',
    remedy: 'Plan again, and deploy again.',
    retryAfterMs: 1_000,
  })
}
