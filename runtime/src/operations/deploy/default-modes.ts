/**
 * How inputs are read that name no mode: by the log of their source, where that can tell their tables and keeps no more for us than
 * it has a limit for. Decided once, when a version is deployed; it keeps what was taken. See decision 304.
 */
import { type ChangeStream, type Connector, isSluiceError } from '@sluice/sdk'
import { PUSH_TYPE } from '../../ingestion/push/settings.ts'
import { isReadByLog, tablesOf } from '../../ingestion/source-tables.ts'
import type { WalledChanges } from '../../ingestion/walled-changes.ts'
import { isNamed, qualified, type SourceTable } from '../../manifest/context.ts'
import type { Input, ManifestSet } from '../../manifest/manifest-set.ts'
import { byLog, hasTakenLog, leavesModeOpen } from '../../manifest/open-modes.ts'
import { capture, captureName } from '../../registry/captures.ts'
import type { Connection } from '../../registry/connections.ts'
import type { Product } from '../../registry/products.ts'
import { openConnector } from '../connections/connections.ts'
import { readersOf } from '../products/input-reads.ts'
import type { DeployDeps } from './deps.ts'

export interface MeantModes {
  readonly manifests: ManifestSet
  /** By alias of an input that is not read by the log of its source, which has one: what is in the way, and how to get past it. */
  readonly notByLog: ReadonlyMap<string, string>
}

/** Of all sources of a version together. */
const LOOK_MS = 10_000

/** Why the log of a source is not read; null: it can be. */
interface Verdict {
  readonly why: string | null
  /** Whether the source has said so, and not its silence. */
  readonly isSaid: boolean
}

/** The product that gets a version. */
export interface Deploying {
  readonly product: Pick<Product, 'id'>
  /** As its version in service has them; null: none is. */
  readonly live: ManifestSet | null
}

/**
 * Writes nothing at any source, and waits for them no longer than `lookMs`: one that does not answer is read as by the version in
 * service where that took its log, and else as one without a log.
 */
export async function withDefaultModes(
  platform: DeployDeps,
  deploying: Deploying,
  manifests: ManifestSet,
  connections: ReadonlyMap<string, Connection>,
  sources: ReadonlyMap<string, readonly SourceTable[] | null>,
  signal: AbortSignal,
  lookMs = LOOK_MS,
): Promise<MeantModes> {
  const look = { signal, deadline: AbortSignal.timeout(lookMs), lookMs }
  const notByLog = new Map<string, string>()
  const chosen = new Set<Input>()
  for (const [name, connection] of connections) {
    const inputs = manifests.inputs.filter((input) => input.connection === name)
    const open = inputs.filter(leavesModeOpen)
    const found = sources.get(name)
    if (open.length === 0 || !hasLog(platform, connection) || !couldBeTold(inputs) || found === undefined) continue
    const { why, isSaid } =
      (await othersVerdict(platform, deploying, connection, inputs)) ??
      (found === null ? UNREACHED : await sourceVerdict(platform, connection, streamsOf(inputs, found), look))
    const goesOn = !isSaid && open.every((input) => hasTakenLog(deploying.live, input))
    for (const input of open) {
      if (why === null || goesOn) chosen.add(input)
      else if (why !== UNSAYABLE) notByLog.set(input.name, why)
    }
  }
  const inputs = manifests.inputs.map((input) => (chosen.has(input) ? byLog(input) : input))
  return { manifests: { ...manifests, inputs }, notByLog }
}

const UNREACHED: Verdict = { why: 'the source could not be asked whether its log can tell the table', isSaid: false }

function hasLog({ plugins }: DeployDeps, { connectorType }: Connection): boolean {
  if (connectorType === PUSH_TYPE) return false
  return plugins.connector(connectorType)?.capabilities.modes.includes('cdc') ?? false
}

/** Tables of one connection are read as of one moment: all by its log, or none. What the file says of one holds for the others. */
function couldBeTold(inputs: readonly Input[]): boolean {
  return inputs.every((input) => leavesModeOpen(input) || input.mode === 'cdc')
}

/** What reads a table stays as it is deployed: a table is read in one way for all. */
async function othersVerdict(
  { pool }: Pick<DeployDeps, 'pool'>,
  { product }: Deploying,
  connection: Connection,
  inputs: readonly Input[],
): Promise<Verdict | null> {
  const own = new Set(inputs.map(({ table }) => qualified(table)))
  const others = (await readersOf(pool, connection))
    .filter((reader) => reader.product.id !== product.id)
    .flatMap(({ manifests }) => manifests.inputs)
    .filter((input) => input.connection === connection.name && own.has(qualified(input.table)))
  const other = tablesOf(others).find((table) => !isReadByLog(table))
  if (other === undefined) return null
  const why = `another product in service reads ${other.name} in another mode, which it keeps; mode: cdc here takes the table to its log for both, unless that one asks for mode full`
  return { why, isSaid: true }
}

function streamsOf(inputs: readonly Input[], found: readonly SourceTable[]): readonly ChangeStream[] {
  return tablesOf(inputs).flatMap(({ schema, table, name }) => {
    const source = found.find((one) => isNamed(one, name))
    return source ? [{ schema, table, primaryKey: source.primaryKey }] : []
  })
}

/** Of a connector that cannot say beforehand what its log would tell: nobody can do anything about that. */
const UNSAYABLE = ''

interface Look {
  readonly signal: AbortSignal
  readonly deadline: AbortSignal
  readonly lookMs: number
}

async function sourceVerdict(
  platform: DeployDeps,
  connection: Connection,
  streams: readonly ChangeStream[],
  { signal, deadline, lookMs }: Look,
): Promise<Verdict> {
  const late = { why: `the source did not say within ${lookMs} ms whether its log can tell the table`, isSaid: false }
  if (deadline.aborted) return late
  try {
    const connector = await openConnector(platform, connection)
    try {
      const why = await askSource(platform, connection, connector, streams, AbortSignal.any([signal, deadline]))
      return { why, isSaid: true }
    } finally {
      await connector.close()
    }
  } catch (error) {
    signal.throwIfAborted()
    if (deadline.aborted) return late
    if (!isSluiceError(error)) throw error
    return { why: sentences(error.message, error.remedy), isSaid: error.kind !== 'TRANSIENT' }
  }
}

/** Null: its log can tell all of them. */
async function askSource(
  { pool }: Pick<DeployDeps, 'pool'>,
  connection: Connection,
  { changes }: Connector,
  streams: readonly ChangeStream[],
  signal: AbortSignal,
): Promise<string | null> {
  if (changes?.refusals === undefined) return UNSAYABLE
  if ((await (changes as Partial<WalledChanges>).judges?.(signal)) === false) return UNSAYABLE
  const known = await capture(pool, connection.id)
  const saved = known?.position ?? null
  const name = known?.name ?? captureName(connection.id)
  const [refused] = await changes.refusals({ capture: name, streams, signal })
  if (refused !== undefined) return sentences(`${refused.schema}.${refused.table}: ${refused.reason}`, refused.remedy)
  const { state, limitBytes, message, remedy } = await changes.health({ capture: name, saved, signal })
  if (state !== 'ok') return sentences(message, remedy)
  return limitBytes === null ? UNLIMITED : null
}

/** Ours gives a log up that has grown too long, as long as there is a runtime to do it. Nobody has asked for that risk here. */
const UNLIMITED =
  'the source would keep its log without end for a reader that does not come. Give it a limit (in PostgreSQL max_slot_wal_keep_size), or write mode: cdc'

function sentences(what: string, remedy?: string | null): string {
  return remedy == null ? what : `${what}. ${remedy.replace(/\.$/, '')}`
}
