/**
 * `npm run demo -- --live`: orders change in a PostgreSQL all the time, and are read back by every door while they do. In
 * the middle the runtime is killed and started again on its folder. At the end the writer stops, and every store is compared with the
 * source. All figures that are shown are measured in this run.
 */
import { closeSync, openSync, readFileSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { issueToken } from '../../runtime/src/auth/embedded-issuer.ts'
import { Api, deploy, type Json, upload } from './api.ts'
import { IcebergReader } from './live-iceberg.ts'
import { PRODUCT, shownChange } from './live-readers.ts'
import { CONNECTION, PATIENCE_MS, SAID, SCHEDULE, type Stage, startRuntime } from './live-runtime.ts'
import { whole } from './live-screen.ts'
import { LiveShow } from './live-show.ts'
import { type Stopping, stopByUser } from './live-signals.ts'
import { type LiveSource, startLiveSource } from './live-source.ts'
import { endProcess, type Server } from './server.ts'
import { step } from './step.ts'

export interface LiveOptions {
  readonly seconds: number
  readonly keep: boolean
}

/** Returns the exit code: 0 where each store has what the source has, and nothing was shown that should not be. */
export async function showLive(options: LiveOptions): Promise<number> {
  const folder = await mkdtemp(join(tmpdir(), 'sluice-live-'))
  const log = openSync(join(folder, 'runtime.log'), 'a')
  const stage: Stage = { folder, data: join(folder, 'data'), log, runtimes: [] }
  const stopping = stopByUser(() => endAtOnce(stage))
  const closing: (() => unknown)[] = [
    () => rm(folder, { recursive: true, force: true, maxRetries: 20 }),
    () => closeSync(log),
    () => Promise.all(stage.runtimes.map((child) => endProcess(child, 'SIGTERM'))),
  ]
  try {
    return await show(stage, options, stopping, closing)
  } catch (error) {
    await stopping.ending
    console.error(`${(error as Error).stack}\nThe end of the runtime's log:\n${tailOf(join(folder, 'runtime.log'))}`)
    return 1
  } finally {
    await stopping.ending
    for (const close of closing.toReversed()) {
      await Promise.resolve(close()).catch((error: Error) => console.error(error.message))
    }
    stopping.forget()
  }
}

/** `closing` is given what is to be done at the end, last first. */
async function show(
  stage: Stage,
  { seconds, keep }: LiveOptions,
  stopping: Stopping,
  closing: (() => unknown)[],
): Promise<number> {
  const { folder, data, log } = stage
  console.log(`${SAID}\n`)
  const [source, server] = await step(
    'start a source database and the runtime',
    () => {
      const starting = startLiveSource(join(folder, 'source'))
      closing.push(async () => (await starting).server.stop())
      return Promise.all([starting, startRuntime(stage)])
    },
    ([, { url }]) => url,
  )
  const tokens = await tokensOf(data)
  const developer = new Api(server.url, tokens.developer)
  await onboard(new Api(server.url, tokens.admin), new Api(server.url, tokens.admin, 'acme'), developer, source)
  const settings = { uri: `${server.url}/iceberg`, warehouse: 'acme', table: PRODUCT }
  const iceberg = await step(
    'look for a Python with PyIceberg',
    () => IcebergReader.start(settings, log),
    (found) => (found === null ? 'none is found: that reader is skipped' : 'found'),
  )
  closing.push(() => iceberg?.stop())
  const readers = { developer, viewer: new Api(server.url, tokens.viewer), developerToken: tokens.developer, iceberg }
  const client = await source.connect()
  // Statements say it when the server is gone.
  client.on('error', () => undefined)
  closing.push(() => client.end())
  const code = await new LiveShow(stage, server, readers, client, seconds, stopping.signal).run()
  if (keep) {
    await developer.patch(CONNECTION, { schedule: SCHEDULE })
    console.log(whereItIs(stage, server, source, tokens))
    await stopping.asked()
  }
  return code
}

async function tokensOf(data: string) {
  const token = (group: string, user: string) =>
    issueToken(data, { tenant: 'acme', groups: [group], user }, { ttlS: 86_400 })
  return {
    admin: await issueToken(data, { role: 'admin' }, { ttlS: 3600 }),
    developer: await token('svc-developers', 'dora'),
    viewer: await token('svc-viewers', 'vito'),
  }
}

async function onboard(admin: Api, ofTenant: Api, developer: Api, source: LiveSource): Promise<void> {
  await step('create the tenant "acme"', () =>
    admin.post('/api/v1/tenants', { slug: 'acme', display_name: 'Acme Corp.', tier: 'enterprise' }),
  )
  await step('register a connection with a schedule', () =>
    developer.post('/api/v1/connections', {
      name: 'shop',
      connector_type: 'postgresql',
      config_encrypted: JSON.stringify(source.login),
      schedule: SCHEDULE,
    }),
  )
  await step(`deploy ${PRODUCT}, in mode cdc`, async () => {
    const id = await upload(developer, 'shop', 'orders', 'source_aligned')
    await deploy(developer, id, true)
    await deploy(developer, id, false)
  })
  const clearance = { subject: { user: 'dora' }, may: 'unmask', classes: ['*'] }
  await step('an administrator clears the developer', () =>
    ofTenant.post(`/api/v1/products/${PRODUCT}/grants`, clearance),
  )
  await step(
    'wait until a first sync has come',
    () => firstRows(developer),
    (rows) => `${whole(rows)} rows`,
  )
}

async function firstRows(developer: Api): Promise<number> {
  for (const deadline = performance.now() + PATIENCE_MS; ; await sleep(100)) {
    const found = await shownChange(developer).catch((error: Error) => error)
    if (found === 0) break
    if (performance.now() > deadline) throw found
  }
  const { rows } = await developer.post('/api/v1/query', { sql: `SELECT count(*) FROM ${PRODUCT}` })
  return Number(rows[0][0])
}

/** What is under way is not waited for, and nothing is left: servers are ended the hard way, their folder is removed. */
async function endAtOnce({ folder, runtimes }: Stage): Promise<never> {
  process.stdout.write('\x1b[?25h')
  const servers = ['data', 'source'].map((part) =>
    Number(readText(join(folder, part, 'postgres/cluster/postmaster.pid')).split('\n')[0]),
  )
  await Promise.all(runtimes.map((child) => endProcess(child, 'SIGKILL')))
  // PostgreSQL's immediate shutdown.
  for (const pid of servers) tell(pid, 'SIGQUIT')
  for (let waitedMs = 0; waitedMs < 3000 && servers.some((pid) => tell(pid, 0)); waitedMs += 20) await sleep(20)
  await rm(folder, { recursive: true, force: true, maxRetries: 20 })
  process.exit(130)
}

/** False where there is no such process. */
function tell(pid: number, signal: 'SIGQUIT' | 0): boolean {
  if (!(pid > 1)) return false
  try {
    return process.kill(pid, signal)
  } catch {
    return false
  }
}

function readText(path: string): string {
  try {
    return readFileSync(path, 'utf8')
  } catch {
    return ''
  }
}

const tailOf = (path: string): string => readText(path).slice(-3000)

function whereItIs(
  { folder }: Stage,
  server: Server,
  source: LiveSource,
  tokens: { readonly developer: string; readonly viewer: string },
) {
  const { host, port, database, user, password } = source.login as Json
  return `
Server     ${server.url}
Reference  ${server.url}/docs
Source     postgresql://${user}:${password}@${host}:${port}/${database}   table orders
Log        ${join(folder, 'runtime.log')}
Developer  ${tokens.developer}
Viewer     ${tokens.viewer}

Nobody writes any more, and syncs go on: change a row at the source, and read it here.
  export SLUICE_URL=${server.url} SLUICE_TOKEN=${tokens.developer}
  npx sluice query 'SELECT status, count(*) AS orders FROM ${PRODUCT} GROUP BY 1'
Ctrl-C ends it.`
}
