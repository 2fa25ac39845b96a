import assert from 'node:assert/strict'
import { generateKeyPairSync, type KeyObject } from 'node:crypto'
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import {
  type CertificateBody,
  type ConnectorPlugin,
  dependenciesOf,
  type Host,
  isSluiceError,
  keyName,
  type ServingPlugin,
  signCertificate,
} from '@sluice/sdk'
import { loadConfig } from '../config.ts'
import { digestOfFolder } from './certificates.ts'
import { loadPlugin } from './loader.ts'
import { openPlugins } from './plugin-set.ts'
import { type ProofRules, proofRules } from './proof-rules.ts'

/** A store that would do everything it is asked to, whatever was proved of it. */
const STORE = `
const seen = (globalThis.seenByTheStore ??= [])
const store = {
  async *read(target, plan) { seen.push(plan); yield { rowCount: 0, columns: [], epoch: 1 } },
  async digest() { return { rowCount: 0, sha256: '' } },
  async recover() { return null },
  rls: {}, health: () => ({ status: 'ok' }), async close() {},
}
const limits = { maxReadRows: 100, maxRowBytes: 1000 }
export default {
  kind: 'serving', type: 'lookup', name: 'own', version: '1.0.0', description: '', settingsSchema: { type: 'object' },
  configSchema: { type: 'object', properties: { ttl: { type: 'string' } } },
  capabilities: { commit: 'atomic', operations: ['get', 'scan'], filters: ['eq'], ttl: { granularityMs: 1 },
    digest: true, recover: true, jsonBatches: true, types: {}, limits },
  async open() { globalThis.openedStores = (globalThis.openedStores ?? 0) + 1; return store },
}`

const DECLARED = [
  'commit atomic',
  'operation get',
  'operation scan',
  'filter eq',
  'ttl',
  'recover',
  'digest',
  'jsonBatches',
]

let root: string
let folder: string
let kept: string
const runner = generateKeyPairSync('ed25519')
const keyText = (key: KeyObject) => key.export({ type: 'spki', format: 'der' }).toString('base64')

before(async () => {
  root = await mkdtemp(join(tmpdir(), 'sluice-proof-'))
  folder = join(root, 'store')
  kept = join(root, 'certificates')
  await mkdir(folder)
  await mkdir(kept)
  const sluice = { sdk: '^1.0.0', plugins: { '.': { kind: 'serving', type: 'lookup', name: 'own' } } }
  const manifest = {
    name: 'own-store',
    version: '1.0.0',
    type: 'module',
    exports: { '.': { default: './index.js' } },
    sluice,
  }
  await writeFile(join(folder, 'package.json'), JSON.stringify(manifest))
  await writeFile(join(folder, 'index.js'), STORE)
})

after(() => rm(root, { recursive: true, force: true }))

async function certify(
  file: string,
  proved: readonly string[],
  { key = runner.privateKey, ...said }: Partial<CertificateBody> & { readonly key?: KeyObject } = {},
): Promise<void> {
  const body: CertificateBody = {
    plugin: { kind: 'serving', type: 'lookup', name: 'own', version: '1.0.0' },
    package: { name: 'own-store', version: '1.0.0', sha256: (await digestOfFolder(folder)) ?? '' },
    sdk: '1.0.0',
    suite: '1.0.0',
    level: 'full',
    seed: 1,
    checks: {},
    proved,
    waived: [],
    killRate: { caught: 1, of: 1 },
    ...said,
  }
  const pem = key.export({ type: 'pkcs8', format: 'pem' }).toString()
  await writeFile(file, JSON.stringify(signCertificate(body, pem)))
}

function rules(parts: Partial<ProofRules> = {}): ProofRules {
  return { allowUnproved: false, trustedKeys: [keyText(runner.publicKey)], folder: kept, ...parts }
}

async function proofUnder(parts: Partial<ProofRules> = {}) {
  return (await loadPlugin(folder, root, rules(parts))).proof
}

test('without a certificate everything is off, and it is said how to prove it', async () => {
  const proof = await proofUnder()
  assert.deepEqual([proof.status, proof.on, proof.off], ['unproved', [], DECLARED])
  assert.match(proof.message, /switched off: .*has no certificate.*sluice-conformance/)
})

test('allow_unproved switches it on, and says so', async () => {
  const proof = await proofUnder({ allowUnproved: true })
  assert.deepEqual([proof.status, proof.on, proof.off], ['allowed', DECLARED, []])
  assert.match(proof.message, /not proved: .*on all the same/)
})

test('a certificate beside the plugin or in the folder switches on what it proves', async (t) => {
  for (const place of [folder, kept]) {
    const file = join(place, 'own.certificate.json')
    await certify(file, DECLARED)
    const proof = await proofUnder()
    assert.deepEqual([proof.status, proof.on, proof.off, proof.levels], ['certified', DECLARED, [], ['full']], place)
    await rm(file)
  }
  t.diagnostic('both places')
})

test('what does not count, and why', async () => {
  const file = join(kept, 'own.certificate.json')
  await certify(file, DECLARED)
  assert.match((await proofUnder({ trustedKeys: [] })).message, /signed by .*trusted_keys does not name/)
  await writeFile(join(folder, 'more.js'), '')
  assert.match((await proofUnder()).message, /of other files/)
  await rm(join(folder, 'more.js'))
  assert.equal((await proofUnder()).status, 'certified')
  await writeFile(file, '{}')
  assert.match((await proofUnder()).message, /does not count: its format/)
  await rm(file)
})

test('what is off cannot be used, whatever the store would do', async () => {
  const file = join(kept, 'own.certificate.json')
  await certify(file, ['commit atomic', 'operation get', 'filter eq', 'recover'])
  const { plugin, proof } = await loadPlugin(folder, root, rules())
  await rm(file)
  assert.deepEqual(proof.off, ['operation scan', 'ttl', 'digest', 'jsonBatches'])
  const serving = plugin as ServingPlugin
  assert.deepEqual(serving.capabilities.operations, ['get'])
  assert.equal(serving.checkConfig?.({ ttl: '1h' }, { columns: [], primaryKey: [] })[0]?.pointer, '/ttl')
  assert.deepEqual(serving.checkConfig?.({}, { columns: [], primaryKey: [] }), [])
  const store = await serving.open({}, {} as Host)
  assert.equal(store.digest, undefined)
  assert.equal(await store.recover?.({} as never), null)
  const plan = {
    operation: 'scan',
    columns: [],
    filters: [],
    orderBy: [],
    limit: 1,
    encoding: 'json',
    policy: { visibleColumns: [], maskedColumns: [] },
  }
  const read = (operation: string) => Array.fromAsync(store.read({} as never, { ...plan, operation } as never))
  await assert.rejects(read('scan'), (error) => isSluiceError(error, 'UNSUPPORTED'))
  await read('get')
  const { seenByTheStore } = globalThis as unknown as { seenByTheStore: { operation: string; encoding: string }[] }
  assert.deepEqual(
    seenByTheStore.map(({ operation, encoding }) => [operation, encoding]),
    [['get', 'columns']],
  )
})

test('a certificate of a lower level, or one that is too old or does not say when it was made, does not count', async (t) => {
  const file = join(kept, 'own.certificate.json')
  t.after(() => rm(file))
  const statusOf = async (said: Partial<CertificateBody>, parts: Partial<ProofRules>) => {
    await certify(file, DECLARED, said)
    const { status, message } = await proofUnder(parts)
    return [status, message] as const
  }
  const daysAgo = (days: number) => new Date(Date.now() - days * 86_400_000).toISOString().slice(0, 10)
  assert.equal((await statusOf({ level: 'core' }, {}))[0], 'certified')
  assert.equal((await statusOf({ level: 'full' }, { minLevel: 'full' }))[0], 'certified')
  const [low, why] = await statusOf({ level: 'core' }, { minLevel: 'full' })
  assert.deepEqual([low, /level core, and certificates.min_level asks for full/.test(why)], ['unproved', true], why)
  for (const [date, status] of [
    [daysAgo(0), 'certified'],
    [daysAgo(30), 'certified'],
    [daysAgo(32), 'unproved'],
    [daysAgo(-3), 'unproved'],
    ['2020-01-01', 'unproved'],
    ['yesterday', 'unproved'],
    [undefined, 'unproved'],
  ] as const) {
    const [given, message] = await statusOf(date === undefined ? {} : { date }, { maxAgeDays: 30 })
    assert.equal(given, status, `${date}: ${message}`)
    if (given === 'unproved') assert.match(message, /certificates.max_age asks for at most 30 days/)
    assert.equal((await statusOf(date === undefined ? {} : { date }, {}))[0], 'certified', 'no age is asked')
  }
})

test('a plugin that is loaded with other packages than it was tried with is not proved', async (t) => {
  const package_ = join(folder, 'package.json')
  const manifest = JSON.parse(await readFile(package_, 'utf8'))
  const lockfile = join(root, 'package-lock.json')
  const file = join(kept, 'own.certificate.json')
  const lock = (version: string, integrity: string) =>
    writeFile(lockfile, JSON.stringify({ packages: { 'node_modules/driver': { version, integrity } } }))
  t.after(async () => {
    await writeFile(package_, JSON.stringify(manifest))
    await Promise.all([rm(file), rm(lockfile)])
  })
  await writeFile(package_, JSON.stringify({ ...manifest, dependencies: { driver: '^2.0.0' } }))
  await lock('2.1.0', 'sha512-d')
  const read = (path: string) => readFile(path, 'utf8').catch(() => null)
  const tried = await dependenciesOf(folder, { dependencies: { driver: '^2.0.0' } }, { read, digest: async () => null })
  assert.ok('packages' in tried)
  await certify(file, DECLARED, { dependencies: tried, date: '2026-01-02', signer: 'the data team' })
  const { status, certificates } = await proofUnder()
  assert.equal(status, 'certified')
  assert.deepEqual(certificates, [
    {
      ...{ level: 'full', date: '2026-01-02', sdk: '1.0.0', suite: '1.0.0', dependencies: tried.sha256 },
      ...{ key: keyName(keyText(runner.publicKey)), signer: 'the data team' },
    },
  ])
  await lock('2.2.0', 'sha512-e')
  assert.match((await proofUnder()).message, /tried with driver@2.1.0; installed: driver@2.2.0/)
  await lock('2.1.0', 'sha512-e')
  assert.match((await proofUnder()).message, /same version has other contents/)
  await rm(lockfile)
  assert.match((await proofUnder()).message, /not known: no lockfile/)
  await lock('2.1.0', 'sha512-d')
  assert.equal((await proofUnder()).status, 'certified')
})

test('the configuration sets what is asked of certificates', () => {
  const settings = (environment: Record<string, string>) => loadConfig({ environment, flags: {} })
  assert.deepEqual(proofRules(settings({})), { allowUnproved: false, trustedKeys: [], folder: null })
  const asked = settings({ SLUICE_CERTIFICATES__MIN_LEVEL: 'full', SLUICE_CERTIFICATES__MAX_AGE: '90d' })
  const { minLevel, maxAgeDays } = proofRules(asked)
  assert.deepEqual([minLevel, maxAgeDays], ['full', 90])
  for (const [name, text] of [
    ['MAX_AGE', '0d'],
    ['MAX_AGE', '1 year'],
    ['MIN_LEVEL', 'some'],
  ])
    assert.throws(() => settings({ [`SLUICE_CERTIFICATES__${name}`]: String(text) }), `${name} ${text}`)
})

test('a store of which nothing is proved is not even opened', async () => {
  const told: string[] = []
  const opened = () => (globalThis as unknown as { openedStores?: number }).openedStores ?? 0
  const options = (proof: ProofRules) => ({
    specifiers: [folder],
    baseDirectory: root,
    serving: { lookup: { driver: 'own' } },
    proof,
    ownConnectors: [],
    wallConnector: (plugin: ConnectorPlugin) => plugin,
    onLoaded: (loaded: { readonly proof: { readonly status: string } }) => void told.push(loaded.proof.status),
    defaultSettings: () => undefined,
    hostFor: async () => ({ async [Symbol.asyncDispose]() {} }) as unknown as Host & AsyncDisposable,
  })
  const before = opened()
  const closed = await openPlugins(options(rules()))
  assert.deepEqual([closed.serving('lookup'), opened()], [undefined, before])
  const allowed = await openPlugins(options(rules({ allowUnproved: true })))
  assert.deepEqual([allowed.servingTypes().length, opened()], [1, before + 1])
  await allowed.close()
  assert.deepEqual(told, ['unproved', 'allowed'])
})

test('what the runtime itself depends on needs no certificate', async () => {
  const { proof } = await loadPlugin(
    '@sluice/realtime/lmdb',
    root,
    rules({ trustedKeys: [], minLevel: 'hard', maxAgeDays: 1 }),
  )
  assert.deepEqual([proof.status, proof.off], ['bundled', []])
})
