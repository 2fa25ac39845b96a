import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { connect as connectTcp, createServer } from 'node:net'
import { after, before, test } from 'node:test'
import { setTimeout as pause } from 'node:timers/promises'
import type { CheckReport } from '@sluice/sdk'
import { createConnector } from './connector.ts'
import { parseSettings, type Settings } from './settings.ts'
import { type SourceHostOptions, sourceHost } from './source-host.ts'
import { type SourceCluster, startCluster, TLS_NAME } from './source-server.ts'

const AUTHORITY = readFileSync(new URL('fixture-tls/authority.pem', import.meta.url), 'utf8')
const NAMES = { names: [TLS_NAME, 'other.sluice.test'] }

let source: SourceCluster

before(async () => {
  source = await startCluster()
  await source.sql(
    `CREATE TABLE one (id int); GRANT SELECT ON one TO ${source.settings.user}, asks_password, asks_md5, only_tls`,
  )
})
after(() => source?.stop())

async function check(changes: Partial<Settings>, options: SourceHostOptions = NAMES): Promise<CheckReport> {
  const host = sourceHost(options)
  const connector = createConnector(parseSettings({ ...source.settings, ...changes }), host)
  try {
    const report = await connector.check(new AbortController().signal)
    const said = JSON.stringify([report, host.heard])
    for (const secret of [source.settings.password, 'open sesame', 'wrong words']) assert.ok(!said.includes(secret))
    return report
  } finally {
    await connector.close()
  }
}

/** The steps by name, a failed one with a minus: `dns tcp -tls`. */
function walked(report: CheckReport): string {
  assert.equal(report.ok, report.steps.length === 5 && report.steps.every((step) => step.ok))
  for (const step of report.steps) {
    assert.ok(step.message.length > 5)
    assert.equal(step.ok, step.remedy === undefined)
  }
  return report.steps.map((step) => `${step.ok ? '' : '-'}${step.name}`).join(' ')
}

const ALL = 'dns tcp tls auth privileges'

test('a good connection passes every step, and tells version and latency', async () => {
  const startedMs = Date.now()
  const report = await check({})
  const tookMs = Date.now() - startedMs
  assert.equal(walked(report), ALL)
  assert.match(report.serverVersion ?? '', /^\d+/)
  assert.ok(report.latencyMs >= 0 && report.latencyMs <= tookMs, `${report.latencyMs} of ${tookMs} ms`)
})

test('each step fails with its remedy, and the later ones are left out', async () => {
  await source.sql("CREATE ROLE nobody LOGIN PASSWORD 'open sesame'")
  assert.equal(walked(await check({ host: 'nowhere.sluice.test' })), '-dns')
  // The discard port: nothing listens there on a machine that tests run on.
  assert.equal(walked(await check({ port: 9 })), 'dns -tcp')
  assert.equal(walked(await check({ ssl_mode: 'verify-full' })), 'dns tcp -tls')
  assert.equal(walked(await check({ password: 'wrong words' })), 'dns tcp tls -auth')
  assert.equal(walked(await check({ user: 'absent' })), 'dns tcp tls -auth')
  assert.equal(walked(await check({ database: 'absent' })), 'dns tcp tls -auth')
  assert.equal(walked(await check({ user: 'nobody', password: 'open sesame' })), 'dns tcp tls auth -privileges')
})

test('a server that says nothing does not hold the check', async () => {
  const silent = createServer(() => undefined)
  await new Promise<void>((resolve) => silent.listen(0, '127.0.0.1', resolve))
  const { port } = silent.address() as { port: number }
  try {
    // It is the limit of each step: of those too that have to end well, for which it may be too short.
    let report = await check({ port, connect_timeout_s: 1 })
    for (const connect_timeout_s of [10, 60]) {
      if (walked(report) !== 'dns tcp -tls') report = await check({ port, connect_timeout_s })
    }
    assert.equal(walked(report), 'dns tcp -tls')
    assert.match(report.steps[2]?.message ?? '', /in time/)
    let plain = ''
    for (const connect_timeout_s of [1, 10, 60]) {
      if (!plain.endsWith('-auth')) plain = walked(await check({ port, connect_timeout_s, ssl_mode: 'disable' }))
    }
    assert.equal(plain, 'dns tcp tls -auth')
  } finally {
    silent.close()
  }
})

test('bytes slipped in ahead of TLS are not believed', async () => {
  const between = createServer((client) => {
    const server = connectTcp(source.settings.port, '127.0.0.1')
    client.on('error', () => server.destroy()).pipe(server)
    server.on('error', () => client.destroy())
    server.once('data', (answer) => {
      client.write(Buffer.concat([answer, Buffer.from('E')]))
      server.pipe(client)
    })
  })
  await new Promise<void>((resolve) => between.listen(0, '127.0.0.1', resolve))
  const { port } = between.address() as { port: number }
  assert.equal(walked(await check({ port })), 'dns tcp -tls')
  between.close()
})

test('TLS is as strict as its mode', async () => {
  const cases: readonly (readonly [Partial<Settings>, string, RegExp])[] = [
    [{ ssl_mode: 'disable' }, ALL, /not encrypted/],
    [{ ssl_mode: 'prefer' }, ALL, /identity is not verified/],
    [{ ssl_mode: 'require' }, ALL, /identity is not verified/],
    [{ ssl_mode: 'require', ssl_root_cert: AUTHORITY }, ALL, /certificate is verified/],
    [{ ssl_mode: 'verify-ca', ssl_root_cert: AUTHORITY }, ALL, /certificate is verified/],
    [{ ssl_mode: 'verify-ca', ssl_root_cert: AUTHORITY, host: 'other.sluice.test' }, ALL, /certificate is verified/],
    [{ ssl_mode: 'verify-full', ssl_root_cert: AUTHORITY, host: TLS_NAME }, ALL, /certificate is verified/],
    [{ ssl_mode: 'verify-full', ssl_root_cert: AUTHORITY, host: 'other.sluice.test' }, 'dns tcp -tls', /another name/],
    [{ ssl_mode: 'verify-full', ssl_root_cert: AUTHORITY }, 'dns tcp -tls', /another name/],
    [{ ssl_mode: 'verify-full', host: TLS_NAME }, 'dns tcp -tls', /trusted authority/],
    [{ user: 'only_tls', password: 'open sesame', ssl_mode: 'disable' }, 'dns tcp tls -auth', /not encrypted/],
    [{ user: 'only_tls', password: 'open sesame', ssl_mode: 'prefer' }, ALL, /encrypted/],
  ]
  for (const [settings, steps, message] of cases) {
    const report = await check(settings)
    const { ssl_root_cert: _, ...shown } = settings
    assert.equal(walked(report), steps, JSON.stringify(shown))
    assert.match(report.steps[2]?.message ?? '', message, JSON.stringify(shown))
  }
})

test('a password that others could use travels over verified TLS only, or where the network allows it', async () => {
  const verified = { ssl_mode: 'verify-full', ssl_root_cert: AUTHORITY, host: TLS_NAME } as const
  for (const user of ['asks_password', 'asks_md5']) {
    const login = { user, password: 'open sesame' }
    for (const ssl_mode of ['disable', 'prefer', 'require'] as const) {
      const report = await check({ ...login, ssl_mode })
      assert.equal(walked(report), 'dns tcp tls -auth', `${user} ${ssl_mode}`)
      assert.match(report.steps[3]?.message ?? '', /was not sent/)
    }
    assert.equal(walked(await check({ ...login, ssl_mode: 'disable' }, { allowsCleartextPassword: true })), ALL)
    assert.equal(walked(await check({ ...login, ...verified })), ALL)
  }
})

test('PG* variables and .pgpass have no say', async () => {
  const foreign = {
    PGPASSWORD: source.settings.password,
    PGOPTIONS: '-c default_transaction_read_only=nonsense',
    PGSSLMODE: 'disable',
    PGHOST: 'absent',
    PGAPPNAME: 'x',
  }
  Object.assign(process.env, foreign)
  try {
    const { password: _, ...nameless } = source.settings
    const connector = createConnector(parseSettings(nameless), sourceHost())
    const report = await connector.check(new AbortController().signal)
    assert.equal(walked(report), 'dns tcp tls -auth')
    assert.match(report.steps[3]?.message ?? '', /none is set/)
    assert.equal(walked(await check({})), ALL)
  } finally {
    for (const name of Object.keys(foreign)) delete process.env[name]
  }
})

test('a check leaves no session, and has written nothing', async () => {
  const before = await source.sql(
    'SELECT pg_current_xact_id_if_assigned() AS own, txid_snapshot_xmax(txid_current_snapshot()) AS next',
  )
  await check({})
  await check({ password: 'wrong words' })
  const after = await source.sql(
    'SELECT pg_current_xact_id_if_assigned() AS own, txid_snapshot_xmax(txid_current_snapshot()) AS next',
  )
  assert.deepEqual(after, before, 'a transaction number was used')
  // The server ends a session a little after its client has gone.
  const sessions = () => source.sql(`SELECT pid FROM pg_stat_activity WHERE usename = '${source.settings.user}'`)
  for (const startedMs = Date.now(); (await sessions()).length > 0; await pause(25)) {
    assert.ok(Date.now() - startedMs < 300_000, 'a session is left')
  }
})

test('an aborted check throws instead of reporting', async () => {
  const connector = createConnector(parseSettings(source.settings), sourceHost())
  await assert.rejects(connector.check(AbortSignal.abort()), { kind: 'TRANSIENT', code: 'aborted' })
  await connector.close()
  await assert.rejects(connector.check(new AbortController().signal), { kind: 'TRANSIENT', code: 'connector_closed' })
})
