import assert from 'node:assert/strict'
import { mkdir, mkdtemp, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { CERTIFICATE_SUFFIX, keyName, readCertificate, SDK_VERSION } from '@sluice/sdk'
import { main } from './command.ts'
import { digestOfPackage } from './plugin-package.ts'
import { nullStorePlugin } from './saboteurs/index.ts'

let folder: string
/** A package whose store keeps every promise. */
let proving: string
/** One whose errors tell the settings. */
let leaking: string

before(async () => {
  folder = await mkdtemp(join(tmpdir(), 'sluice-command-'))
  const saboteurs = JSON.stringify(new URL('./saboteurs/index.ts', import.meta.url).href)
  const fixture = JSON.stringify(new URL('./reference/conformance.ts', import.meta.url).href)
  await writeFile(join(folder, 'package.json'), '{"name":"idle","version":"1.0.0","type":"module"}')
  await writeFile(join(folder, 'index.js'), `export { nullStorePlugin as default } from ${saboteurs}`)
  await writeFile(join(folder, 'conformance.js'), `export { start } from ${fixture}`)
  proving = join(folder, 'proving')
  await mkdir(proving)
  await writeFile(join(proving, 'package.json'), '{"name":"proving","version":"1.0.0","type":"module"}')
  const referenceModule = JSON.stringify(new URL('./reference/index.ts', import.meta.url).href)
  await writeFile(join(proving, 'index.js'), `export { default } from ${referenceModule}`)
  const named = `export const start = async () => Object.assign(await made(), { server: 'Memory 1.0' })`
  await writeFile(join(proving, 'conformance.js'), `import { start as made } from ${fixture}\n${named}`)
  leaking = join(folder, 'leaking')
  await mkdir(leaking)
  await writeFile(join(leaking, 'index.js'), leakingPlugin(referenceModule))
  const settings = { user: 'joe', password: 's3cret&<word>', url: 'postgresql://joe:p%40ss@localhost/db' }
  const stub = `{ settings: ${JSON.stringify(settings)}, async restart() {}, async stop() {} }`
  await writeFile(join(leaking, 'conformance.js'), `export const start = async () => (${stub})`)
})

after(() => rm(folder, { recursive: true, force: true }))

function leakingPlugin(referenceModule: string): string {
  return `import reference from ${referenceModule}
    const password = { type: 'string', 'x-secret': true }
    export default {
      ...reference,
      settingsSchema: { type: 'object', properties: { user: { type: 'string' }, password, url: { type: 'string' } } },
      async open({ password, url }) {
        throw new Error(\`cannot log in with \${password} at \${url}\`)
      },
    }`
}

async function run(...args: string[]) {
  const lines: string[] = []
  const problems: string[] = []
  const code = await main(args, { line: (text) => lines.push(text), problem: (text) => problems.push(text) })
  return { code, text: lines.join('\n'), problems: problems.join('\n') }
}

const reference = new URL('./reference', import.meta.url).pathname

test('0 where every check holds, with reports', async () => {
  const report = join(folder, 'report')
  const { code, text } = await run(reference, '--only', '37,upsert-changes-only-key', '--seed', '7', '--report', report)
  assert.equal(code, 0)
  assert.match(text, /reference\/memory: 2 checks, 2 passed, .* \(level core, seed 7\)$/)
  const json = JSON.parse(await readFile(join(report, 'conformance.json'), 'utf8')) as { checks: { status: string }[] }
  assert.deepEqual(
    json.checks.map(({ status }) => status),
    ['passed', 'passed'],
  )
  assert.match(await readFile(join(report, 'conformance.xml'), 'utf8'), /<testsuite [^>]*tests="2" failures="0"/)
})

test('a whole level gives a certificate of the files, signed by a key that is made once', async () => {
  const [report, key] = [join(folder, 'certified'), join(folder, 'keys', 'runner.pem')]
  const wanted = ['--report', report, '--key', key, '--signer', 'the data team']
  const { code, text } = await run(proving, ...wanted)
  assert.equal(code, 0, text)
  assert.match(text, /a new key was made/)
  const file = join(report, 'reference-memory.certificate.json')
  const first = await readFile(file, 'utf8')
  const certificate = readCertificate(first)
  assert.ok('body' in certificate)
  const { body, publicKey } = certificate
  assert.deepEqual([body.package.name, body.level, body.seed, body.waived], ['proving', 'core', 1, []])
  assert.equal(body.package.sha256, await digestOfPackage(proving, join(proving, 'index.js')))
  assert.ok(body.proved.includes('operation get') && body.proved.includes('digest') && body.killRate.caught >= 60)
  assert.ok(text.includes(publicKey))
  assert.equal((await stat(key)).mode & 0o077, 0)

  assert.equal(body.sdk, SDK_VERSION)
  assert.match(String(body.date), /^\d{4}-\d{2}-\d{2}$/)
  assert.deepEqual([body.dependencies?.packages, body.signer, body.server], [[], 'the data team', 'Memory 1.0'])

  const again = await run(proving, ...wanted)
  assert.doesNotMatch(again.text, /a new key/)
  const second = readCertificate(await readFile(file, 'utf8'))
  assert.ok('body' in second)
  if (second.body.date === body.date) assert.equal(await readFile(file, 'utf8'), first)
  const json = JSON.parse(await readFile(join(report, 'conformance.json'), 'utf8'))
  const texts = [
    await readFile(join(report, 'conformance.html'), 'utf8'),
    await readFile(join(report, 'conformance.xml'), 'utf8'),
  ]
  assert.deepEqual(json.key, { name: keyName(publicKey), publicKey, signer: 'the data team' })
  assert.deepEqual([json.date, json.capabilities.on, json.capabilities.off], [second.body.date, body.proved, []])
  assert.ok(json.elapsed_ms > 0 && json.checks.every((check: { elapsed_ms: number }) => check.elapsed_ms >= 0))
  assert.equal(json.replay, `npx sluice-conformance ${proving} --level core --seed 1`)
  for (const text of texts)
    for (const said of [json.date, json.replay, json.key.name, 'operation get']) assert.ok(text.includes(said), said)
  assert.equal(json.server, 'Memory 1.0')
  assert.ok(texts[0]?.includes('Memory 1.0'))
  assert.match(again.text, /took \d.* s; longest: \d+ [a-z-]+ \d/)

  await writeFile(join(proving, 'another.js'), '')
  assert.notEqual(body.package.sha256, await digestOfPackage(proving, join(proving, 'index.js')))
  await rm(join(proving, 'another.js'))
})

test('a connector is certified by the modes that it was proved to read in', async () => {
  const report = join(folder, 'connector')
  const connector = new URL('./reference-connector', import.meta.url).pathname
  const { code, text } = await run(connector, '--report', report, '--key', join(folder, 'connector.pem'))
  assert.equal(code, 0, text)
  const [name = ''] = (await readdir(report)).filter((file) => file.endsWith(CERTIFICATE_SUFFIX))
  const certificate = readCertificate(await readFile(join(report, name), 'utf8'))
  assert.ok('body' in certificate)
  assert.equal(certificate.body.plugin.kind, 'connector')
  for (const mode of ['full', 'incremental']) assert.ok(certificate.body.proved.includes(`mode ${mode}`), mode)
})

test('a certificate is of what the sources say now, never of what was built of older ones', async () => {
  const built = join(folder, 'built')
  const report = join(folder, 'built-report')
  const scripts = { build: 'node build.js' }
  const manifest = {
    name: 'built',
    version: '1.0.0',
    type: 'module',
    exports: { '.': './dist/index.js' },
    files: ['dist'],
  }
  const plugins = { '.': { kind: 'connector', type: 'reference', name: 'memory' } }
  await mkdir(join(built, 'dist'), { recursive: true })
  await writeFile(
    join(built, 'package.json'),
    JSON.stringify({ ...manifest, scripts, sluice: { sdk: '^1.0.0', plugins } }),
  )
  await writeFile(join(built, 'dist', 'index.js'), 'throw new Error("an old one")')
  const module = (name: string) => JSON.stringify(new URL(`./reference-connector/${name}.ts`, import.meta.url).href)
  const fixture = `export { start } from ${module('conformance')}`
  await writeFile(join(built, 'dist', 'conformance.js'), fixture)
  const source = `export { default } from ${module('index')}`
  const build = (text: string) => writeFile(join(built, 'build.js'), `import { writeFileSync } from 'node:fs'\n${text}`)
  const wanted = ['--report', report, '--key', join(folder, 'built.pem')]

  await build('console.error("line 7 is wrong"); process.exit(1)')
  const failing = await run(built, ...wanted)
  assert.equal(failing.code, 2)
  assert.match(failing.problems, /npm run build in .* failed.*\n[^]*line 7 is wrong/)

  await build(`writeFileSync('dist/index.js', ${JSON.stringify(source)} + '// now')`)
  const { code, text } = await run(built, '--only', 'C10', ...wanted)
  assert.equal(code, 0, text)
  assert.match(await readFile(join(built, 'dist', 'index.js'), 'utf8'), /now$/)
  assert.match((await run(built, '--no-build', ...wanted)).text, /no certificate: with --no-build nobody knows/)
})

test('no certificate of a part of a level, nor of a plugin that fails', async () => {
  const report = join(folder, 'uncertified')
  const certificates = async () => (await readdir(report)).filter((name) => name.endsWith(CERTIFICATE_SUFFIX))
  assert.match((await run(proving, '--only', '37', '--report', report)).text, /no certificate: it is made of a whole/)
  assert.deepEqual(await certificates(), [])
  await writeFile(join(report, `${nullStorePlugin.type}-${nullStorePlugin.name}${CERTIFICATE_SUFFIX}`), 'a former one')
  const failing = await run(folder, '--report', report)
  assert.equal(failing.code, 1)
  assert.match(failing.text, /no certificate: nothing is proved/)
  assert.deepEqual(await certificates(), [])
})

test('no secret of the settings stands in what is printed or written', async () => {
  const report = join(folder, 'leaking-report')
  const { code, text } = await run(leaking, '--only', '37', '--report', report)
  assert.equal(code, 1)
  const written = await Promise.all(
    ['json', 'xml', 'html', 'svg'].map((ending) => readFile(join(report, `conformance.${ending}`), 'utf8')),
  )
  const everything = [text, ...written].join('\n')
  assert.match(everything, /cannot log in with \*+ at postgresql:\/\/joe:\*+@/)
  for (const secret of ['s3cret&<word>', 's3cret&amp;', 'p%40ss', 'p@ss']) {
    assert.ok(!everything.includes(secret), secret)
  }
})

test('what failed can be replayed from its report', async () => {
  const report = join(folder, 'replayed')
  await run(folder, '--only', '37,38', '--seed', '9', '--report', report)
  const file = join(report, 'conformance.json')
  const { code, text } = await run(folder, '--replay', file)
  assert.equal(code, 1)
  assert.match(text, /2 checks, .* 2 failed \(level core, seed 9\)/)
  assert.equal((await run(folder, '--replay', file, '--seed', '1')).code, 2)
  assert.equal((await run(folder, '--replay', join(report, 'absent.json'))).code, 2)
})

test('the page and the badge say how it went', async () => {
  const report = join(folder, 'page')
  await run(folder, '--only', '37', '--report', report)
  const page = await readFile(join(report, 'conformance.html'), 'utf8')
  assert.match(page, /does not conform/)
  assert.doesNotMatch(page, /<script|src=|href=/)
  assert.match(await readFile(join(report, 'conformance.svg'), 'utf8'), /core: 1 fail/)
  await run(reference, '--only', '37', '--report', report)
  assert.match(await readFile(join(report, 'conformance.html'), 'utf8'), /memory: conforms/)
  assert.match(await readFile(join(report, 'conformance.svg'), 'utf8'), /core: 1 hold</)
})

test('reads are measured when it is asked for', async () => {
  const { code, text } = await run(reference, '--only', '37', '--bench')
  assert.equal(code, 0)
  assert.match(text, /measured +get of one row: median \d/)
})

test('1 where one fails, saying what, where, why and the remedy', async () => {
  const report = join(folder, 'failed')
  const { code, text } = await run(folder, '--only', '37', '--report', report)
  assert.equal(code, 1)
  assert.match(
    text,
    /FAILED +37 upsert-last-wins-within-batch\n.*\n +expected: .*\n +came: .*\n +where: .*\n +why: .*\n +remedy: .*\n +replay: .* --only upsert/,
  )
  assert.match(
    await readFile(join(report, 'conformance.xml'), 'utf8'),
    /failures="1"[^]*<failure>the store shows other rows/,
  )
})

test('2 where it could not run', async () => {
  for (const args of [
    [],
    ['no-such-plugin'],
    [reference, '--level', 'some'],
    [reference, '--only', 'nothing'],
    [reference, '--seed', 'x'],
  ]) {
    const { code, problems } = await run(...args)
    assert.equal(code, 2, args.join(' '))
    assert.notEqual(problems, '')
  }
})
