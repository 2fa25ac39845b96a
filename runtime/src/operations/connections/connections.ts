/** Connections: registered with sealed secrets, tested, discovered, synced. */
import type { TableRef } from '@sluice/iceberg'
import type { CheckReport, Connector, ConnectorPlugin, DiscoveredTable } from '@sluice/sdk'
import { isSluiceError, SluiceError } from '@sluice/sdk'
import { inTransaction } from '../../database/pools.ts'
import type { TenantCall } from '../../flow.ts'
import { PUSH_TYPE } from '../../ingestion/push/settings.ts'
import type { SourceHost } from '../../ingestion/source-readers.ts'
import { registryCatalog } from '../../lake/registry-catalog.ts'
import type { ScheduleText } from '../../manifest/schedule.ts'
import { rawDomain } from '../../materializer/inputs.ts'
import { actorOf } from '../../registry/actor.ts'
import { readSecrets, storeSecrets } from '../../registry/connection-secrets.ts'
import {
  type Connection,
  createConnection,
  deleteConnection,
  findConnection,
  lockConnection,
  recordConnectionTest,
  updateConnection,
} from '../../registry/connections.ts'
import { forgetConnectorStates } from '../../registry/connector-states.ts'
import { lockGrants } from '../../registry/grant-bases.ts'
import { revokeRawTableGrants } from '../../registry/grants.ts'
import { productsReadingFrom } from '../../registry/products.ts'
import { emptyQuarantine } from '../../registry/quarantine.ts'
import { lockClasses } from '../../registry/raw-classes.ts'
import { enqueueRun, queuedRunOf, type Run } from '../../registry/runs.ts'
import type { Queryable, Transaction } from '../../registry/sql.ts'
import { audited } from '../audit.ts'
import type { Keep } from '../keep.ts'
import { notFound } from '../not-found.ts'
import { requireDeveloper } from '../permissions.ts'
import { endWhatRested } from '../rights/grant-rights.ts'
import { ownsConnection } from '../rights/raw-rights.ts'
import { leaveCapture } from './captures.ts'
import {
  changedSettings,
  checkSecretsAreSent,
  hiddenFields,
  isMap,
  leadsElsewhere,
  parseConfig,
  splitSecrets,
  withoutHidden,
} from './connection-settings.ts'
import type { ConnectionsDeps } from './deps.ts'
import { checkPushedTables } from './pushed-tables.ts'
import {
  checkFollowable,
  keepConnectionSchedule,
  type ScheduledConnection,
  scheduleOf,
  withSchedules,
} from './schedules.ts'

/** "sandbox" is the tenant's own tables, as an input of products. */
const NAME = /^(?!sandbox$)[a-z][a-z0-9_-]{0,62}$/i

function requireName(name: string): void {
  if (NAME.test(name)) return
  throw new SluiceError('INVALID_DATA', 'the name is not valid', {
    code: 'invalid_value',
    remedy: 'Use up to 63 letters, digits, "_" and "-", beginning with a letter.',
  })
}

export interface NewConnectionRequest {
  readonly name: string
  readonly connectorType: string
  readonly configText: string
  readonly schedule?: ScheduleText
}

export async function registerConnection(
  platform: ConnectionsDeps,
  call: TenantCall,
  request: NewConnectionRequest,
  keep: Keep<ScheduledConnection>,
): Promise<ScheduledConnection> {
  requireDeveloper(call.principal)
  requireName(request.name)
  const schedule = request.schedule && scheduleOf(request.schedule, platform.config.limits.schedule_interval_ms)
  const plugin = connectorPlugin(platform, request.connectorType)
  checkFollowable(schedule, plugin)
  const settings = await checkedByPlugin(platform, call.tenant, plugin, parseConfig(request.configText, plugin))
  const { open, secrets: sent } = splitSecrets(plugin, settings)
  const secrets = withoutHidden(sent, [])
  return inTransaction(platform.pool, async (tx) => {
    const created = await createConnection(tx, {
      tenant: call.tenant,
      name: request.name,
      connectorType: request.connectorType,
      config: open,
      createdBy: actorOf(call.principal),
    })
    await storeSecrets(tx, platform.masters, created, secrets)
    if (schedule !== undefined) await keepConnectionSchedule(tx, created, schedule, call.principal)
    const details = schedule === undefined ? {} : { schedule: request.schedule }
    await audited(tx, call, call.tenant, 'connection.create', { type: 'connection', id: created.id }, details)
    const [connection] = await withSchedules(tx, [{ ...created, secretFields: Object.keys(secrets) }])
    await keep(tx, connection as ScheduledConnection)
    return connection as ScheduledConnection
  })
}

export interface ConnectionChangeRequest {
  readonly name?: string
  readonly configText?: string
  /** Null takes it away. */
  readonly schedule?: ScheduleText | null
}

/**
 * Where rows come from, and as whom they are read, is for the connection's creator and administrators to change. Another
 * place needs the password again: a stored one goes nowhere that its owner did not name. Grants on its raw tables end
 * then, and what was read before counts as another source's. Throws 403 `connection_owner_required`, 400
 * `invalid_connection_config` where the password is not sent, and 409 `connection_in_use` for another name of a
 * connection whose name products, or rows in the lake, go by.
 */
export async function changeConnection(
  platform: ConnectionsDeps,
  call: TenantCall,
  idOrName: string,
  change: ConnectionChangeRequest,
): Promise<ScheduledConnection> {
  requireDeveloper(call.principal)
  const { limits } = platform.config
  const schedule = change.schedule ? scheduleOf(change.schedule, limits.schedule_interval_ms) : change.schedule
  const before = await connectionOf(platform, call.tenant, idOrName)
  const newName = change.name === before.name ? undefined : change.name
  if (newName !== undefined) requireName(newName)
  const plugin = connectorPlugin(platform, before.connectorType)
  checkFollowable(schedule, plugin)
  const settings = change.configText === undefined ? null : parseConfig(change.configText, plugin)
  const parsed = settings === null ? null : splitSecrets(plugin, settings)
  if (settings !== null && parsed !== null) {
    const kept = await keptSecrets(platform, call, before.id, parsed)
    await checkedByPlugin(platform, call.tenant, plugin, { ...settings, ...kept })
  }
  return inTransaction(platform.pool, async (tx) => {
    if (newName !== undefined) await lockClasses(tx, call.tenant)
    // As it is from here on: who sends settings of before would else bring these back, beside a secret of later.
    const connection = await lockConnection(tx, call.tenant, before.id)
    if (connection === null) throw notFound('connection')
    if (newName !== undefined) await checkRename(tx, connection)
    const changed = parsed === null ? [] : changedSettings(connection, parsed.open)
    const secrets = withoutHidden(parsed?.secrets ?? {}, connection.secretFields)
    // There is no source that rows could be read from again: whatever is changed, those that came stay.
    const isPushed = connection.connectorType === PUSH_TYPE
    const moved = isPushed
      ? []
      : changed.filter((name) => leadsElsewhere(name, connection.config[name], parsed?.open[name]))
    const mapped = changed.filter((name) => !moved.includes(name) && (isPushed || isMap(parsed?.open[name])))
    // Not compared with those that are stored: whoever may not change them could guess them so.
    const login = [...moved, ...mapped, ...Object.keys(secrets)]
    if (login.length > 0 && !ownsConnection(call.principal, connection)) throw ownerRequired(login)
    if (parsed !== null && isPushed) await checkPushedTables(tx, platform, connection, parsed.open)
    if (parsed !== null && moved.length > 0) checkSecretsAreSent(connection, secrets, moved)
    if (moved.length > 0) await leaveCapture(tx, platform, connection)
    const updated = await updateConnection(tx, call.tenant, connection.id, {
      ...(change.name === undefined ? {} : { name: change.name }),
      ...(parsed === null ? {} : { config: parsed.open }),
      isMoved: moved.length > 0,
    })
    if (!updated) throw notFound('connection')
    if (parsed) {
      const stored = await readSecrets(tx, platform.masters, connection)
      await storeSecrets(tx, platform.masters, updated, { ...stored, ...secrets })
    }
    if (moved.length > 0) await lockGrants(tx, call.tenant)
    const revoked = moved.length > 0 ? await revokeRawTableGrants(tx, call.tenant, connection.id) : 0
    if (moved.length > 0) {
      await forgetConnectorStates(tx, connection.id)
      await emptyQuarantine(tx, connection.id)
    }
    if (revoked > 0) await endWhatRested(tx, call, { connection: connection.id })
    if (schedule !== undefined) await keepConnectionSchedule(tx, updated, schedule, call.principal)
    const details = {
      ...(login.length === 0 ? {} : { changed: login, revoked_raw_grants: revoked }),
      ...(schedule === undefined ? {} : { schedule: change.schedule }),
    }
    await audited(tx, call, call.tenant, 'connection.update', { type: 'connection', id: connection.id }, details)
    return (await withSchedules(tx, [updated]))[0] as ScheduledConnection
  })
}

function ownerRequired(changed: readonly string[]): SluiceError {
  return new SluiceError('PERMISSION', `only the creator of the connection changes its ${changed.join(', ')}`, {
    code: 'connection_owner_required',
    remedy: 'Ask the creator of the connection or an administrator, or register a connection of your own.',
  })
}

/** Whoever took over the name would take over the rows that lie under it in the lake, and the inputs of products. */
async function checkRename(tx: Transaction, connection: Connection): Promise<void> {
  await refuseUsed(tx, connection)
  if ((await rawTables(tx, connection)).length === 0) return
  throw new SluiceError('CONFLICT', 'rows of this connection lie in the lake under its name', {
    code: 'connection_in_use',
    remedy: 'Register a connection of the new name, and delete this one with its rows.',
  })
}

/** After `lockClasses`: no version that reads from it comes into service meanwhile. */
async function refuseUsed(tx: Transaction, { tenant, name }: Connection): Promise<void> {
  const users = await productsReadingFrom(tx, tenant, name)
  if (users.length === 0) return
  throw new SluiceError('CONFLICT', 'products read from this connection', {
    code: 'connection_in_use',
    remedy: 'Change or delete these products first.',
    details: { products: users.map((product) => `${product.domain}.${product.name}`) },
  })
}

/** In a transaction by its own connection: others may wait for its locks with all that the pool has. */
async function rawTables(db: Queryable, { tenant, name }: Connection): Promise<readonly TableRef[]> {
  return (await registryCatalog(db).tables(tenant, rawDomain(name))).map(({ ref }) => ref)
}

/** With its rows in the lake: a connection of the same name would go on with them. Throws 409 `connection_in_use`. */
export async function removeConnection(platform: ConnectionsDeps, call: TenantCall, idOrName: string): Promise<void> {
  requireDeveloper(call.principal)
  const found = await connectionOf(platform, call.tenant, idOrName)
  const { id } = found
  // Before its name is free: from then on files of another connection come to the same folders.
  const own = await rawTables(platform.pool, found)
  const files = await Promise.all(own.map((table) => platform.lake.filesToPurge(table)))
  await inTransaction(platform.pool, async (tx) => {
    // In the order of `changeConnection`.
    await lockClasses(tx, call.tenant)
    const connection = await lockConnection(tx, call.tenant, id)
    if (connection === null) throw notFound('connection')
    await refuseUsed(tx, connection)
    // Runs that have read from it publish nothing from here on.
    const left = await rawTables(tx, connection)
    await lockGrants(tx, call.tenant)
    for (const table of left) await registryCatalog(tx).dropPointer(table)
    await leaveCapture(tx, platform, connection)
    await deleteConnection(tx, call.tenant, connection.id)
    await endWhatRested(tx, call, { connection: connection.id })
    await audited(tx, call, call.tenant, 'connection.delete', { type: 'connection', id: connection.id })
  })
  for (const table of files) await platform.lake.purge(table)
}

export async function connectionOf(platform: ConnectionsDeps, tenant: string, idOrName: string): Promise<Connection> {
  const connection = await findConnection(platform.pool, tenant, idOrName)
  if (!connection) throw notFound('connection')
  return connection
}

/** A failing test is an answer, not an error. */
export async function testConnection(
  platform: ConnectionsDeps,
  call: TenantCall,
  idOrName: string,
): Promise<CheckReport> {
  requireDeveloper(call.principal)
  const connection = await connectionOf(platform, call.tenant, idOrName)
  const connector = await openConnector(platform, connection)
  try {
    const report = await connector.check(call.signal)
    await recordConnectionTest(platform.pool, connection, report.ok ? 'ok' : 'failed')
    return report
  } finally {
    await connector.close()
  }
}

const DISCOVER_PAGE = 500
const MAX_TABLES = 10_000

export async function discoverConnection(
  platform: ConnectionsDeps,
  call: TenantCall,
  idOrName: string,
): Promise<readonly DiscoveredTable[]> {
  requireDeveloper(call.principal)
  return discoverAll(platform, await connectionOf(platform, call.tenant, idOrName), call.signal)
}

export async function discoverAll(
  platform: ConnectionsDeps,
  connection: Connection,
  signal: AbortSignal,
): Promise<readonly DiscoveredTable[]> {
  const connector = await openConnector(platform, connection)
  try {
    const tables: DiscoveredTable[] = []
    let after: string | null = null
    do {
      const page = await connector.discover({ after, limit: DISCOVER_PAGE }, signal)
      tables.push(...page.tables)
      after = page.next
    } while (after !== null && tables.length < MAX_TABLES)
    return tables
  } finally {
    await connector.close()
  }
}

/** Queues an ingestion; one that waits already is answered again, for it will read what is there when it begins. */
export async function syncConnection(
  platform: ConnectionsDeps,
  call: TenantCall,
  idOrName: string,
  keep: Keep<Run>,
): Promise<Run> {
  requireDeveloper(call.principal)
  const connection = await connectionOf(platform, call.tenant, idOrName)
  return inTransaction(platform.pool, async (tx) => {
    const run = (await queuedRunOf(tx, { connectionId: connection.id })) ?? (await queueSync(tx, call, connection))
    await keep(tx, run)
    return run
  })
}

async function queueSync(tx: Transaction, call: TenantCall, connection: Connection): Promise<Run> {
  const run = await enqueueRun(tx, {
    tenant: call.tenant,
    kind: 'ingestion',
    connectionId: connection.id,
    trigger: 'manual',
    createdBy: actorOf(call.principal),
  })
  await audited(tx, call, call.tenant, 'connection.sync', { type: 'connection', id: connection.id }, { run: run.id })
  return run
}

/** Tenants share the processes that read sources evenly. */
function hostOf(platform: ConnectionsDeps, tenant: string): SourceHost {
  return { ...platform.connectorHost, tenant }
}

/** The secrets are in clear inside the connector only. */
export async function openConnector(
  platform: ConnectionsDeps,
  connection: Connection,
  options: { readonly oneMoment?: boolean } = {},
): Promise<Connector> {
  const plugin = connectorPlugin(platform, connection.connectorType)
  const moment = options.oneMoment === true && offersOneMoment(plugin) ? { [ONE_MOMENT]: true } : {}
  const secrets = await readSecrets(platform.pool, platform.masters, connection)
  return openWith(platform, connection, { ...connection.config, ...secrets, ...moment })
}

/** With settings of its own: those of a connection may be others by now. */
export async function openWith(
  platform: ConnectionsDeps,
  { tenant, connectorType }: Pick<Connection, 'tenant' | 'connectorType'>,
  settings: Readonly<Record<string, unknown>>,
): Promise<Connector> {
  try {
    return await connectorPlugin(platform, connectorType).open(settings, hostOf(platform, tenant))
  } catch (error) {
    throw refusedByPlugin(error)
  }
}

/** The setting by which a connector offers that all its reads see one instant of the source. */
const ONE_MOMENT = 'one_moment'

function offersOneMoment({ settingsSchema }: ConnectorPlugin): boolean {
  const { properties = {} } = settingsSchema as { readonly properties?: Readonly<Record<string, unknown>> }
  return Object.hasOwn(properties, ONE_MOMENT)
}

/** Whether runs read all tables of the connection as of one instant. */
export function readsAtOneMoment(platform: ConnectionsDeps, connection: Connection): boolean {
  const plugin = platform.plugins.connector(connection.connectorType)
  return plugin !== undefined && plugin !== null && offersOneMoment(plugin)
}

/** What its schema cannot say of the settings, the plugin says itself, when it is opened. */
/**
 * The secrets that stay, in place of how they are hidden: a plugin may look at what is in them, and not only whether they are there.
 * None where the settings lead to another place, or the caller may not say what is read by them.
 */
async function keptSecrets(
  { pool, masters }: ConnectionsDeps,
  { principal, tenant }: TenantCall,
  id: string,
  { open, secrets }: ReturnType<typeof splitSecrets>,
): Promise<Readonly<Record<string, string>>> {
  const hidden = hiddenFields(secrets)
  if (hidden.length === 0) return {}
  return inTransaction(pool, async (tx) => {
    // A secret that somebody stores just now is of the settings that he stores with it.
    const connection = await lockConnection(tx, tenant, id)
    if (connection === null) throw notFound('connection')
    const isOwn = ownsConnection(principal, connection)
    const leads = (name: string) =>
      leadsElsewhere(name, connection.config[name], open[name]) || (!isOwn && isMap(open[name]))
    if (changedSettings(connection, open).some(leads)) return {}
    const stored = await readSecrets(tx, masters, connection)
    return Object.fromEntries(Object.entries(stored).filter(([field]) => hidden.includes(field)))
  })
}

async function checkedByPlugin(
  platform: ConnectionsDeps,
  tenant: string,
  plugin: ConnectorPlugin,
  settings: Readonly<Record<string, unknown>>,
): Promise<Readonly<Record<string, unknown>>> {
  try {
    await (await plugin.open(settings, hostOf(platform, tenant))).close()
    return settings
  } catch (error) {
    throw refusedByPlugin(error)
  }
}

/** The tenant's settings, not the operator's. */
function refusedByPlugin(error: unknown): unknown {
  if (!isSluiceError(error) || error.kind !== 'CONFIG') return error
  return new SluiceError('INVALID_DATA', error.message, {
    code: 'invalid_connection_config',
    ...(error.remedy === undefined ? {} : { remedy: error.remedy }),
    cause: error,
  })
}

/** Throws INVALID_DATA `unknown_connector_type`. */
export function connectorPlugin(platform: Pick<ConnectionsDeps, 'plugins'>, type: string): ConnectorPlugin {
  const plugin = platform.plugins.connector(type)
  if (plugin) return plugin
  throw new SluiceError('INVALID_DATA', 'no connector of that type is loaded', {
    code: 'unknown_connector_type',
    remedy: `Types: ${platform.plugins.connectorTypes().join(', ') || 'none'}. The operator names others under plugins.`,
  })
}
