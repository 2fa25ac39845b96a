/** How the inputs of a product lie in the lake. */

import type { Lake, Scan, TableRef, TableState } from '@sluice/iceberg'
import { SluiceError, type Variant } from '@sluice/sdk'
import type pg from 'pg'
import { inTransaction } from '../database/pools.ts'
import { registryCatalog } from '../lake/registry-catalog.ts'
import { SANDBOX } from '../lake/tenant-layout.ts'
import { DEFAULT_SCHEMA, productOfInput, qualified, rawTableName } from '../manifest/context.ts'
import type { Input, ManifestSet } from '../manifest/manifest-set.ts'
import { usedOf } from '../manifest/used-columns.ts'
import { madeMasks, missingMasks, NO_MASKS } from '../policy/made-masks.ts'
import type { ColumnMask } from '../policy/masking.ts'
import { unsettledTables } from '../registry/captures.ts'
import { databaseNow } from '../registry/clock.ts'
import { type Connection, findConnectionByName, isOfSource } from '../registry/connections.ts'
import { readAtOf as epochReadAt } from '../registry/data-ages.ts'
import { latestEpoch, type Materialization } from '../registry/materializations.ts'
import { PRODUCTS } from '../registry/product-sources.ts'
import type { Product } from '../registry/products.ts'
import { tableReads } from '../registry/run-progress.ts'
import type { HeldShapes, JudgedColumns } from '../registry/versions.ts'
import { contractTerms } from './contract-terms.ts'
import type { InputState } from './input-state.ts'
import { type LakeState, stateOfScan } from './lake-state.ts'
import { lacksValues, MOMENT, markedUsed, READ_AT, ROWS_REJECTED } from './raw-summary.ts'
import { type Remaking, remakingRemedy } from './remaking.ts'
import { changesSince } from './source-changes.ts'
import { lakeTable } from './variants.ts'

/**
 * The raw table of a source table, in the tenant's own zone of the lake. The connection "sandbox", which nobody can
 * register, stands for the tenant's plain tables; of a product it is the table that has its values in clear.
 */
export function rawTable(tenant: string, connection: string, table: string): TableRef {
  const product = productOfInput({ connection, table })
  if (product !== null) return lakeTable(tenant, product.domain, product.name, 'clear')
  if (connection !== SANDBOX) return { warehouse: tenant, namespace: rawDomain(connection), table: rawTableName(table) }
  // The sandbox has no schemas: a dot is part of a name there.
  const own = table.startsWith(`${DEFAULT_SCHEMA}.`) ? table.slice(DEFAULT_SCHEMA.length + 1) : table
  return { warehouse: tenant, namespace: SANDBOX, table: own }
}

const RAW = 'raw_'

/** Where the rows of a connection lie as they came. */
export function rawDomain(connection: string): string {
  return `${RAW}${connection}`
}

/** The connection whose raw tables lie there; null of other namespaces. */
export function connectionOf(domain: string): string | null {
  return domain.startsWith(RAW) ? domain.slice(RAW.length) : null
}

/** A product as an input: as whoever deployed the version in service is shown it today. */
export interface UpstreamAccess {
  readonly productId: string
  readonly variant: Variant
  /** Columns that have to be masked in it. */
  readonly hidden: readonly string[]
  /** How, where it is for who reads it. Absent: in any way. */
  readonly masks?: readonly ColumnMask[]
  /** Those that it had when the version was judged: what came to it since then is not there. Null: whichever it has. */
  readonly columns: readonly string[] | null
  /**
   * Whether the variant shows no more than it may once the product is made anew, with the classes that the version in service has
   * yet to be given. Else only a deployment of what is made of it can choose another one.
   */
  readonly fitsOnceMade: boolean
  readonly remaking: Remaking
}

export interface InputDeps {
  readonly pool: pg.Pool
  readonly lake: Lake
  /** Of inputs that are tables: others are not there. Absent or null: whichever they have. */
  readonly judgedColumns?: JudgedColumns | null
  /** What contracts hold inputs to. Absent or null: as of an input that is not there, to what its table has now. */
  readonly heldShapes?: HeldShapes | null
  /** Throws PERMISSION `input_forbidden` where it may not be read any more. */
  upstreamOf(input: Input): Promise<UpstreamAccess>
}

/** What an epoch of a product keeps of each input, under its alias. */
interface KeptInput {
  /** What the input rests on, down to the sources: by the name of a table or a product, which rows of it. */
  readonly rests_on?: Readonly<Record<string, string>>
}

/**
 * The inputs as they lie in the lake now, all of one instant: of tables that were committed together none is seen without the
 * others. Throws CONFLICT `input_not_ingested`, `inputs_of_several_waves`, `mask_pending`, PERMISSION `input_forbidden`, and
 * INVALID_DATA `source_schema_changed`.
 */
export async function readInputs(
  product: Product,
  manifests: ManifestSet,
  signal: AbortSignal,
  { lake, pool, judgedColumns, heldShapes, upstreamOf }: InputDeps,
): Promise<readonly InputState[]> {
  const upstreams = await Promise.all(
    manifests.inputs.map((input) => (input.connection === PRODUCTS ? upstreamOf(input) : null)),
  )
  const tables = manifests.inputs.map((input, index) => {
    const table = rawTable(product.tenant, input.connection, input.table)
    const upstream = upstreams[index]
    return upstream ? lakeTable(product.tenant, table.namespace, table.table, upstream.variant) : table
  })
  // Of what is no copy of anything: it is read now.
  const now = (await databaseNow(pool)).toISOString()
  const found = await inTransaction(
    pool,
    async (db) => {
      const catalog = registryCatalog(db)
      const connections = await connectionsOf(db, product.tenant, manifests.inputs)
      await refuseUnsettled(db, connections, manifests.inputs)
      const states: (TableState | null)[] = []
      for (const table of tables) states.push(await lake.load(table, { signal, catalog }))
      const epochs: (Materialization | null)[] = []
      for (const upstream of upstreams) epochs.push(upstream && (await latestEpoch(db, upstream.productId)))
      return { states, epochs, connections, reads: await lastReads(db, connections, manifests.inputs) }
    },
    { isolation: 'repeatable read', readOnly: true, signal },
  )
  const inputs = await Promise.all(
    manifests.inputs.map(async (input, index): Promise<InputState> => {
      const base = found.states[index] ?? null
      const scan = base && (await lake.scan(base, {}, signal))
      const upstream = upstreams[index]
      if (upstream) {
        const [epoch, whole] = [found.epochs[index], scan && stateOfScan(scan)]
        if (!epoch || !whole) throw notIngested(input)
        const state = onlyColumns(whole, upstream.columns)
        const changes = changesSince(base, whole.columns)
        return upstreamState(input, upstream, { epoch, state, changes, table: tables[index] as TableRef })
      }
      const connection = found.connections.get(input.connection) ?? null
      const isFormer = scan !== null && connection !== null && !isOfSource(scan.summary, connection)
      const whole = scan && !isFormer && stateOfScan(scan)
      const state = whole && onlyColumns(whole, judgedColumns?.[input.name] ?? null)
      // What anybody may write says nothing of rows that a connection has brought.
      const summary: Scan['summary'] = scan === null || connection === null ? {} : scan.summary
      if (state && lacksValues(summary, manifests, input)) throw inputLacksValues(input)
      if (state) {
        const shape = heldShapes?.[input.name] ?? whole.columns
        const terms = contractTerms(input, manifests, shape, state, whole.columns)
        return {
          ...(terms === null ? {} : { terms }),
          ...(connection === null ? {} : { connectionId: connection.id }),
          shape,
          input,
          state,
          table: tables[index] as TableRef,
          moment: summary[MOMENT] ?? null,
          readAt:
            connection === null
              ? now
              : readAtOf(summary, scan?.committedAtMs ?? null, found.reads.get(input.name) ?? null),
          // What upkeep writes anew holds the same rows.
          restsOn: { [`${input.connection}:${qualified(input.table)}`]: summary[READ_AT] ?? state.snapshotId },
          changes: changesSince(base, whole.columns),
          rejected: Number(summary[ROWS_REJECTED] ?? 0),
          marked: markedUsed(summary, manifests, input),
          used: usedOf(
            state.columns.map(({ name }) => name),
            manifests,
            input,
          ),
        }
      }
      throw notIngested(input)
    }),
  )
  requireOneWave(inputs)
  return inputs
}

/** What comes to a table after a version was judged may be of any class, and a text over all columns would take it up. */
function onlyColumns(state: LakeState, judged: readonly string[] | null): LakeState {
  return { ...state, columns: state.columns.filter(({ name }) => judged?.includes(name) ?? true) }
}

function notIngested({ name, connection, table }: Input): SluiceError {
  const remedies: Readonly<Record<string, string>> = {
    [SANDBOX]: 'Write the table through the Iceberg catalog first.',
    [PRODUCTS]: `Materialize the product ${table}: this one is made with it.`,
  }
  return new SluiceError('CONFLICT', `the input "${name}" has not been ingested yet`, {
    code: 'input_not_ingested',
    remedy: remedies[connection] ?? `Sync the connection "${connection}".`,
  })
}

/** Whether the epoch has that variant, and shows no more in it of what is to be hidden than the reader's masks do. */
export function hasForReader(
  epoch: Pick<Materialization, 'maskedColumns' | 'masks'>,
  { variant, hidden, masks = [] }: Pick<UpstreamAccess, 'variant' | 'hidden' | 'masks'>,
): boolean {
  const masked = epoch.maskedColumns[variant]
  if (masked === undefined || !hidden.every((column) => masked.includes(column))) return false
  return missingMasks(masks, madeMasks(epoch, variant)).length === 0
}

function upstreamState(
  input: Input,
  access: UpstreamAccess,
  { epoch, ...lying }: Pick<InputState, 'state' | 'table' | 'changes'> & { readonly epoch: Materialization },
): InputState {
  if (!hasForReader(epoch, access)) throw inputShowsTooMuch(input, access, epoch)
  const kept = Object.values(epoch.inputs).map((one) => (one as KeptInput | null)?.rests_on ?? {})
  return {
    input,
    ...lying,
    moment: null,
    readAt: epochReadAt(epoch).toISOString(),
    restsOn: { ...Object.assign({}, ...kept), [`${input.connection}:${input.table}`]: String(epoch.epoch) },
    rejected: 0,
    upstream: { productId: access.productId, epoch: epoch.epoch as number },
  }
}

/** As readers of the product are told, where making it anew helps: `mask_pending`, else `input_forbidden`. */
export function inputShowsTooMuch(
  input: Input,
  access: Pick<UpstreamAccess, 'hidden' | 'masks' | 'variant' | 'fitsOnceMade' | 'remaking'>,
  epoch: Pick<Materialization, 'maskedColumns' | 'masks'> | null,
): SluiceError {
  const { hidden, masks = [], variant, fitsOnceMade, remaking } = access
  if (!fitsOnceMade) return inputForbidden(input, 'its columns are hidden in another way by now')
  const made = epoch === null ? NO_MASKS : madeMasks(epoch, variant)
  const columns = missingMasks(masks, made).map(({ column }) => column)
  const remedy = `${remakingRemedy(remaking, columns.length > 0 ? columns : hidden)} This product is made with it.`
  if (columns.length === 0) {
    return inputForbidden(input, 'its rows are of a version that hid what the one in service shows', remedy)
  }
  const message = `the rows of the input "${input.name}", the product ${remaking.name}, show more than may be shown of them by now`
  return new SluiceError('CONFLICT', message, { code: 'mask_pending', remedy, details: { columns } })
}

/** What the version's deployer may not read any more. */
export function inputForbidden({ name, table }: Input, why: string, remedy = DEPLOYED_BY_READER): SluiceError {
  return new SluiceError('PERMISSION', `the input "${name}", the product ${table}, may not be read: ${why}`, {
    code: 'input_forbidden',
    remedy,
  })
}

const DEPLOYED_BY_READER = 'Let somebody deploy the product who may read its inputs.'

/**
 * What is made of one table by several ways is made of the same rows of it by all of them. Inputs that take the latest epoch
 * stand aside. Throws CONFLICT `inputs_of_several_waves`.
 */
function requireOneWave(inputs: readonly InputState[]): void {
  const rests = new Map<string, { readonly rows: string; readonly input: string }>()
  for (const { input, restsOn = {} } of inputs) {
    if (input.epoch === 'latest') continue
    for (const [table, rows] of Object.entries(restsOn)) {
      const other = rests.get(table)
      if (other === undefined) rests.set(table, { rows, input: input.name })
      else if (other.rows !== rows) throw severalWaves(table, [other.input, input.name])
    }
  }
}

function severalWaves(table: string, [first, second]: readonly [string, string]): SluiceError {
  const named = table.startsWith(`${PRODUCTS}:`) ? `the product ${table.slice(PRODUCTS.length + 1)}` : table
  const message = `its inputs "${first}" and "${second}" are made of ${named}, and not of the same rows of it by now`
  return new SluiceError('CONFLICT', message, {
    code: 'inputs_of_several_waves',
    remedy:
      'It is made when the one that is behind has been made. Where that is not wanted, write epoch: latest for one of them in inputs.yaml.',
  })
}

/** By name, those that inputs read from and that are still there; none of the sandbox and of products. */
async function connectionsOf(
  db: pg.PoolClient,
  tenant: string,
  inputs: readonly Input[],
): Promise<ReadonlyMap<string, Connection>> {
  const found = new Map<string, Connection>()
  for (const name of new Set(inputs.map(({ connection }) => connection))) {
    const connection = name === SANDBOX || name === PRODUCTS ? null : await findConnectionByName(db, tenant, name)
    if (connection !== null) found.set(name, connection)
  }
  return found
}

/** Of a table whose log has not passed what its read has seen, some rows are older than others. */
async function refuseUnsettled(
  db: pg.PoolClient,
  connections: ReadonlyMap<string, Connection>,
  inputs: readonly Input[],
): Promise<void> {
  for (const [name, { id }] of connections) {
    const unsettled = await unsettledTables(db, id)
    const input = inputs.find((one) => one.connection === name && unsettled.has(qualified(one.table)))
    if (input === undefined) continue
    throw new SluiceError('CONFLICT', `the input "${input.name}" was read, and the log of its source was not yet`, {
      code: 'input_not_ingested',
      remedy: `Sync the connection "${name}".`,
    })
  }
}

/** By alias: when the newest read of its table began that was committed, whether it brought a row or not. */
async function lastReads(
  db: pg.PoolClient,
  connections: ReadonlyMap<string, Connection>,
  inputs: readonly Input[],
): Promise<ReadonlyMap<string, Date | null>> {
  const found = new Map<string, Date | null>()
  for (const [name, connection] of connections) {
    const own = inputs.filter((input) => input.connection === name)
    const tables = [...new Set(own.map(({ table }) => qualified(table)))]
    const reads = new Map((await tableReads(db, connection, tables)).map((one) => [one.name, one.readAt]))
    for (const { name: alias, table } of own) found.set(alias, reads.get(qualified(table)) ?? null)
  }
  return found
}

/**
 * A log that says nothing of a table leaves it as it is, and was read all the same. A release before this one has not said when
 * it read; the commit came after that.
 */
function readAtOf(summary: Scan['summary'], committedAtMs: number | null, lastReadAt: Date | null): string | null {
  const said = summary[READ_AT] ?? (committedAtMs === null ? null : new Date(committedAtMs).toISOString())
  return said !== null && lastReadAt !== null && lastReadAt > new Date(said) ? lastReadAt.toISOString() : said
}

/** Which columns these are is known to who may read the table, and to nobody else. */
function inputLacksValues({ name, connection }: Input): SluiceError {
  const message = `the input "${name}" was read when no product used all the columns that this one uses, and lacks values of them`
  return new SluiceError('CONFLICT', message, {
    code: 'input_not_ingested',
    remedy: `Sync the connection "${connection}": it reads the table whole.`,
  })
}
