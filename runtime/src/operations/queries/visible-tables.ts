/** The tables that a statement may refer to and its author may read: products, their pasts and what checks put aside, raw tables, the sandbox. */

import { foldName, quoteName } from '@sluice/engine'
import { engineTable, type TableRef } from '@sluice/iceberg'
import { isSluiceError, SluiceError } from '@sluice/sdk'
import { SANDBOX } from '../../lake/tenant-layout.ts'
import { qualified } from '../../manifest/context.ts'
import type { ManifestSet } from '../../manifest/manifest-set.ts'
import { connectionOf, rawDomain, rawTable } from '../../materializer/inputs.ts'
import { columnsWithoutValues, READ_AT } from '../../materializer/raw-summary.ts'
import { lakeTable, QUARANTINE } from '../../materializer/variants.ts'
import { type MadeMasks, madeMasks, missingMasks, rowMasks } from '../../policy/made-masks.ts'
import { connectionsNamed, isOfSource } from '../../registry/connections.ts'
import { readAtOf } from '../../registry/data-ages.ts'
import {
  epochAsOf,
  epochOfSnapshot,
  findEpoch,
  lastEpochOfVersion,
  type Materialization,
} from '../../registry/materializations.ts'
import { ownName, type Rests, restsOf } from '../../registry/rests-on.ts'
import { findVersion } from '../../registry/versions.ts'
import { audited } from '../audit.ts'
import { type KeptQuality, seesAside, sightOf } from '../products/visible-quality.ts'
import { parseValue } from '../reads/parse-value.ts'
import { mayReadRaw } from '../rights/raw-rights.ts'
import { asMadeBy } from '../served/as-made-by.ts'
import {
  accessOrNull,
  accessTo,
  notMaterialized,
  orClear,
  type ReadAccess,
  refuseStaleMask,
  refuseUnmade,
  type ServedProduct,
} from '../served/served-product.ts'
import { readsSandbox, type StatementCall, type Visible } from './asked-query.ts'
import type { QueriesDeps } from './deps.ts'
import { isPermitted } from './held-rights.ts'
import type { NamedTables } from './named-tables.ts'
import { pastsNamed, versionOfTag } from './past-names.ts'

/** What is looked for, and under which name the reading of a product is put on record. */
export interface Looking {
  readonly names: NamedTables
  readonly asOf: string | undefined
  readonly action: string
}

export interface Named {
  readonly visible: readonly Visible[]
  /** By folded `namespace.table`: why one that the author may read has no rows to give. */
  readonly absent: ReadonlyMap<string, SluiceError>
}

/** What the statement may refer to and its author may read; nothing else exists for it. */
export async function visibleTables(platform: QueriesDeps, call: StatementCall, looking: Looking): Promise<Named> {
  const { names, asOf } = looking
  const absent = new Map<string, SluiceError>()
  const products = await platform.served.named(call.tenant, names.products)
  const visible: Visible[] = []
  for (const product of products) {
    const access = accessOrNull(product, call.principal, platform.rules)
    if (access === null) continue
    const table = await productTable(platform, call, product, access, looking)
    const pasts = await pastTables(platform, call, product, access, looking)
    if (table === null) {
      const own = `${product.domain}.${product.name}`
      for (const name of [own, `${own}${QUARANTINE}`]) absent.set(foldName(name), notMadeThen(product))
    }
    if (table === null && pasts.length === 0) continue
    if (access.audit) await recordRead(platform, call, product, looking)
    visible.push(...(table ?? []), ...pasts)
  }
  const plain = await sandboxTables(platform, call, names, asOf)
  return { visible: [...visible, ...plain, ...(await rawTables(platform, call, names))], absent }
}

/** Of a product without an epoch, now or at the time that was asked for. */
function notMadeThen(product: ServedProduct): SluiceError {
  if (product.variants.size === 0) return notMaterialized(product)
  const name = `${product.domain}.${product.name}`
  return new SluiceError('INVALID_DATA', `${name} had not been materialized yet at the time that is asked for`, {
    code: 'snapshot_not_found',
    remedy: 'Ask for a later time; GET /api/v1/products/{id}/snapshots lists what there is.',
  })
}

function recordRead(
  platform: QueriesDeps,
  call: StatementCall,
  product: ServedProduct,
  { action }: Looking,
): Promise<void> {
  return audited(platform.pool, call, call.tenant, action, { type: 'product', id: product.id })
}

async function productTable(
  platform: QueriesDeps,
  call: StatementCall,
  product: ServedProduct,
  access: ReadAccess,
  looking: Looking,
): Promise<readonly Visible[] | null> {
  const { names, asOf } = looking
  const own =
    asOf === undefined ? newestTable(platform, call, product, access) : await pastTable(platform, call, product, asOf)
  if (own === null) return null
  const { snapshotId, maskedColumns } = own
  refuseStaleMask(product, own.access.masks, own.masks)
  if (own.access.audit && !access.audit) await recordRead(platform, call, product, looking)
  const ref = lakeTable(call.tenant, product.domain, product.name, own.access.variant)
  const named = [product.domain, product.name]
  const isStillReadable = () =>
    isPermitted(async () => refuseStaleMask(product, (await own.accessNow()).masks, own.masks))
  const seen = await visibleTable(platform, call, ref, named, { snapshotId, maskedColumns, isStillReadable })
  const origin = { type: 'product', productId: product.id, variant: own.access.variant } as const
  const table = { ...seen, made: own.made, rests: own.rests, origin }
  const isAsideNamed = names.has(product.domain, `${product.name}${QUARANTINE}`)
  const aside = isAsideNamed ? await quarantineTable(platform, call, product, access) : null
  return aside === null ? [table] : [table, { ...aside, isStillReadable }]
}

interface OwnTable {
  readonly access: ReadAccess
  /** As `access` was come to, by the rights of now. Throws as that did. */
  accessNow(): Promise<ReadAccess>
  readonly snapshotId: string
  readonly maskedColumns: readonly string[]
  readonly masks: MadeMasks
  readonly made: NonNullable<Visible['made']>
  readonly rests: Rests | null
}

function newestTable(
  platform: QueriesDeps,
  call: StatementCall,
  product: ServedProduct,
  today: ReadAccess,
): OwnTable | null {
  const access = orClear(today, (variant) => product.variants.get(variant)?.masks)
  const served = product.variants.get(access.variant)
  if (served === undefined) refuseUnmade(product, access)
  if (served === undefined) return null
  const { snapshotId, maskedColumns, masks, epoch, readAt, rests } = served
  const accessNow = async () => {
    const now = await platform.served.find(call.tenant, product.id)
    return accessTo(now, call.principal, platform.rules, (variant) => now.variants.has(variant))
  }
  return { access, accessNow, snapshotId, maskedColumns, masks, made: { epoch, readAt }, rests }
}

/** The policy of that time holds beside today's: a version since then may have opened what an older one keeps masked. */
async function pastTable(
  platform: QueriesDeps,
  call: StatementCall,
  product: ServedProduct,
  asOf: string,
): Promise<OwnTable | null> {
  const epoch = await epochAt(platform, product, asOf)
  if (epoch === null) return null
  const then = (await findVersion<ManifestSet>(platform.pool, product.id, epoch.version))?.normalised
  if (then === undefined) throw noSuchPast()
  const isThere = (variant: string) => variant in epoch.snapshots
  const masksOf = (variant: string) => rowMasks(epoch, variant, then.output.columns)
  const under = async (of: ServedProduct) => {
    const access = accessTo(asMadeBy(of, then, platform.rules), call.principal, platform.rules, isThere)
    return orClear(access, (variant) => (isThere(variant) ? masksOf(variant) : undefined))
  }
  const access = await under(product)
  const accessNow = async () => under(await platform.served.find(call.tenant, product.id))
  const snapshotId = epoch.snapshots[access.variant]
  const masks = masksOf(access.variant)
  if (snapshotId === undefined || missingMasks(access.masks, masks).length > 0) throw stalePast()
  const made = { epoch: epoch.epoch as number, readAt: readAtOf(epoch).toISOString() }
  const rests = restsOf(ownName(product.domain, product.name), epoch)
  const maskedColumns = epoch.maskedColumns[access.variant] ?? []
  return { access, accessNow, snapshotId, maskedColumns, masks, made, rests }
}

/** What the reader may see of what that version made. Throws PERMISSION `product_forbidden`. */
async function accessUnder(
  platform: QueriesDeps,
  call: StatementCall,
  product: ServedProduct,
  version: string,
  available: (variant: string) => boolean,
): Promise<ReadAccess> {
  const then = (await findVersion<ManifestSet>(platform.pool, product.id, version))?.normalised
  if (then === undefined) throw noSuchPast()
  return accessTo(asMadeBy(product, then, platform.rules), call.principal, platform.rules, available)
}

/** Pasts that the statement itself names, each a relation beside the product's own. */
async function pastTables(
  platform: QueriesDeps,
  call: StatementCall,
  product: ServedProduct,
  access: ReadAccess,
  looking: Looking,
): Promise<readonly Visible[]> {
  const visible: Visible[] = []
  for (const past of pastsNamed(looking.names.of(product.domain), product.name)) {
    const [own] = (await productTable(platform, call, product, access, { ...looking, asOf: past })) ?? []
    if (own === undefined) throw notMadeThen(product)
    const name = [product.domain, `${product.name}@${past}`]
    visible.push({ ...own, table: { ...own.table, name }, name: name.join('.') })
  }
  return visible
}

async function visibleTable<Seen extends Pick<Visible, 'snapshotId' | 'maskedColumns'>>(
  platform: QueriesDeps,
  call: StatementCall,
  ref: TableRef,
  name: readonly string[],
  seen: Seen,
) {
  const scan = await platform.lake.scan(ref, { snapshotId: seen.snapshotId }, call.signal)
  return { table: engineTable(scan, name), ref, name: name.join('.'), ...seen }
}

/** Rows that checks put aside, for those who may read the product. */
async function quarantineTable(
  platform: QueriesDeps,
  call: StatementCall,
  product: ServedProduct,
  access: ReadAccess,
): Promise<Omit<Visible, 'isStillReadable'> | null> {
  const ref = lakeTable(call.tenant, product.domain, `${product.name}${QUARANTINE}`, access.variant)
  const table = await platform.lake.load(ref, { signal: call.signal })
  if (table?.snapshotId == null) return null
  // These may be of an earlier epoch than the product's, and of other classes: only what they say of themselves counts.
  const { summary } = await platform.lake.scan(table, {}, call.signal)
  const masked = (summary['sluice.masked-columns'] ?? '').split(',')
  const epoch = await findEpoch(platform.pool, product.id, Number(summary['sluice.epoch']))
  const kept = (epoch?.quality ?? null) as KeptQuality | null
  if (kept === null || !seesAside(await sightOf(platform, call, product.id), kept)) return null
  const under = await masksUnder(platform, call, product, summary['sluice.version'])
  if (under === null) return null
  const ofRows = { maskedColumns: { [access.variant]: masked }, masks: epoch?.masks ?? null }
  const made = madeMasks(ofRows, access.variant)
  if (missingMasks([...access.masks, ...under.masks], made).length > 0) return null
  const rests = epoch === null ? null : restsOf(ownName(product.domain, product.name), epoch)
  const seen = { snapshotId: table.snapshotId, maskedColumns: masked, rests }
  return visibleTable(platform, call, ref, [product.domain, `${product.name}${QUARANTINE}`], seen)
}

/** Null where the reader may see nothing of what that version made. */
async function masksUnder(
  platform: QueriesDeps,
  call: StatementCall,
  product: ServedProduct,
  version: string | undefined,
) {
  if (version === undefined) return null
  try {
    return await accessUnder(platform, call, product, version, () => true)
  } catch (error) {
    if (isSluiceError(error) && ['PERMISSION', 'INVALID_DATA'].includes(error.kind)) return null
    throw error
  }
}

function stalePast(): SluiceError {
  return new SluiceError('CONFLICT', 'that snapshot was made before columns of it were classified as they are today', {
    code: 'snapshot_not_masked',
    remedy: 'Ask for a later snapshot, or for a grant that unmasks the columns.',
  })
}

async function epochAt(platform: QueriesDeps, product: ServedProduct, asOf: string): Promise<Materialization | null> {
  if (product.variants.size === 0) return null
  if (/^\d{1,19}$/.test(asOf)) {
    const epoch = await epochOfSnapshot(platform.pool, product.id, asOf)
    if (epoch) return epoch
    throw noSuchPast()
  }
  const version = versionOfTag(asOf)
  if (version !== null) {
    const epoch = await lastEpochOfVersion(platform.pool, product.id, version)
    if (epoch) return epoch
    throw noSuchPast()
  }
  const instant = parseValue(asOf, 'timestamptz', 'as_of') as string
  return epochAsOf(platform.pool, product.id, new Date(instant))
}

function noSuchPast(): SluiceError {
  return new SluiceError('INVALID_DATA', 'a product of this query has no such snapshot or version', {
    code: 'snapshot_not_found',
    remedy: 'Take an id from GET /api/v1/products/{id}/snapshots, or a version that was materialized, as v1.2.0.',
  })
}

/** `sandbox.<table>`, for the tenant's members. A time of `as_of` holds for them, too. */
async function sandboxTables(
  platform: QueriesDeps,
  call: StatementCall,
  names: NamedTables,
  asOf: string | undefined,
): Promise<readonly Visible[]> {
  if (names.of(SANDBOX).length === 0 || !readsSandbox(call.principal)) return []
  const isTime = asOf !== undefined && !/^\d{1,19}$/.test(asOf) && versionOfTag(asOf) === null
  const choice = isTime ? { asOf: new Date(parseValue(asOf, 'timestamptz', 'as_of') as string) } : {}
  const visible: Visible[] = []
  for (const ref of await platform.lake.tables(call.tenant, SANDBOX)) {
    if (!names.has(SANDBOX, ref.table)) continue
    const scan = await platform.lake.scan(ref, choice, call.signal)
    const name = [SANDBOX, ref.table]
    visible.push({
      table: engineTable(scan, name),
      ref,
      name: name.join('.'),
      snapshotId: scan.snapshotId ?? '',
      maskedColumns: [],
      rests: new Map([[`${SANDBOX}:${qualified(ref.table)}`, scan.snapshotId ?? '']]),
      origin: { type: 'sandbox' },
      // Everybody's who is a member, which a token is until its end.
      isStillReadable: async () => true,
    })
  }
  return visible
}

/** `raw_<connection>.<table>`, for those who may read it. */
async function rawTables(platform: QueriesDeps, call: StatementCall, names: NamedTables): Promise<readonly Visible[]> {
  const connections = names.schemas.flatMap((schema) => connectionOf(schema) ?? [])
  if (connections.length === 0) return []
  const visible: Visible[] = []
  for (const connection of await connectionsNamed(platform.pool, call.tenant, connections)) {
    const domain = rawDomain(connection.name)
    const written = names.of(domain)
    const readable: TableRef[] = []
    for (const ref of await platform.lake.tables(call.tenant, domain)) {
      if (!names.has(domain, ref.table)) continue
      if (await mayReadRaw(platform, call, connection, qualified(ref.table))) readable.push(ref)
    }
    for (const ref of toldApart(readable, written)) {
      const name = qualified(ref.table)
      const table = await platform.lake.load(rawTable(call.tenant, connection.name, name), { signal: call.signal })
      if (table?.snapshotId == null) continue
      const { summary } = await platform.lake.scan(table, {}, call.signal)
      if (!isOfSource(summary, connection)) throw ofFormerSource(connection.name, name)
      await audited(
        platform.pool,
        call,
        call.tenant,
        'read.raw',
        { type: 'connection', id: connection.id },
        { table: name },
      )
      const isStillReadable = async () => {
        const named = await connectionsNamed(platform.pool, call.tenant, [connection.name])
        const now = named.find(({ id }) => id === connection.id)
        return now !== undefined && (await mayReadRaw(platform, call, now, name))
      }
      const rests = new Map([[`${connection.name}:${name}`, summary[READ_AT] ?? table.snapshotId]])
      const about = { snapshotId: table.snapshotId, maskedColumns: [], rests, isStillReadable }
      const seen = await visibleTable(platform, call, ref, [domain, ref.table], about)
      const origin = { type: 'raw', connectionId: connection.id, table: name } as const
      visible.push({ ...seen, origin, withoutValues: columnsWithoutValues(summary) })
    }
  }
  return visible
}

/** The engine's names ignore case: of tables that differ by it alone, a statement has the one that it writes. */
function toldApart(refs: readonly TableRef[], named: readonly string[]): readonly TableRef[] {
  const isWritten = ({ table }: TableRef) => named.includes(table)
  return [...Map.groupBy(refs, ({ table }) => table.toLowerCase()).values()].flatMap((alike) => {
    if (alike.length === 1) return alike
    const written = alike.filter(isWritten)
    if (written.length === 1) return written
    const names = alike.map(({ table }) => quoteName(table)).join(', ')
    throw new SluiceError('INVALID_DATA', `the tables ${names} differ only by case, and a statement has one of them`, {
      code: 'sql_invalid',
      remedy: 'Name one of them, in its own case.',
    })
  })
}

function ofFormerSource(connection: string, table: string): SluiceError {
  return new SluiceError('CONFLICT', `${table} was read before the connection "${connection}" led to another source`, {
    code: 'connection_moved',
    remedy: `Sync the connection "${connection}".`,
  })
}
