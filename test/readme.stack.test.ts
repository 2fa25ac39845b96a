/** What a new user does first: the demo, the README's commands, and those of the first guide, as they stand there. */
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, it } from 'node:test'
import pg from 'pg'
import { startCopiedServer } from '../runtime/src/database/testing.ts'
import { RuntimeProcess } from './crash/runtime-process.ts'
import { addressesOf, guidePages } from './guide-pages.ts'
import { until } from './until.ts'

const ROOT = join(import.meta.dirname, '..')
const LAUNCHER = join(ROOT, 'runtime/bin/sluice.js')
/** With PyIceberg; of the suite's environment. On another machine that reader is left out, and the test says so. */
const PYTHON = process.env['SLUICE_TEST_ICEBERG_PYTHON']

let folder = ''

before(async () => {
  folder = await mkdtemp(join(tmpdir(), 'sluice-readme-'))
})
after(() => rm(folder, { recursive: true, force: true }))

interface Ended {
  readonly code: number | null
  readonly out: string
}

/** `npx sluice` is the launcher of this checkout, whatever npm is there. */
function shell(script: string, env: Readonly<Record<string, string>>): Promise<Ended> {
  const npx = `npx() { [ "$1" = sluice ] && shift && '${process.execPath}' '${LAUNCHER}' "$@"; }\n`
  const foreign = Object.entries(process.env).filter(([name]) => !name.startsWith('SLUICE_'))
  const child = spawn('bash', ['-e', '-c', npx + script], {
    cwd: ROOT,
    env: { ...Object.fromEntries(foreign), ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  let out = ''
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk: Buffer) => (out += chunk))
  return new Promise((resolve) => child.once('close', (code) => resolve({ code, out })))
}

function section(markdown: string, title: string): string {
  const [, text = ''] = markdown.split(`## ${title}\n`)
  return text.split('\n## ')[0] ?? ''
}

/** All of one language, one after the other. */
const blocksOf = (markdown: string, language: string): string =>
  [...markdown.matchAll(new RegExp(`^\`\`\`${language}\\n([^]*?)^\`\`\`$`, 'gm'))].map(([, text]) => text).join('')

it('the demo shows everything, stays, and one of its rows is read as the README says, masked and in clear', async (context) => {
  const demo = spawn(process.execPath, [join(ROOT, 'examples/demo/main.ts'), '--keep'], { cwd: ROOT })
  let out = ''
  for (const stream of [demo.stdout, demo.stderr]) stream.on('data', (chunk: Buffer) => (out += chunk))
  const ended = new Promise<number | null>((resolve) => demo.once('close', resolve))
  try {
    await until('the demo is done', () => demo.exitCode !== null || out.includes('Ctrl-C ends it.'))
    assert.equal(demo.exitCode, null, out)
    assert.match(out, /^ 1\. start a source database and the server +\d/m)
    assert.match(out, /viewer: lookup, person 42 .*\[redacted\].*\n/)
    assert.match(out, /developer: lookup, person 42 .*Grace Ervin.*\n/)
    assert.match(out, /^All of it in [\d.]+ s; every value agrees with the source\.$/m)
    const [, commands = ''] = /In another terminal, in this folder:\n([^]*)Ctrl-C/.exec(out) ?? []
    const { code, out: said } = await shell(commands, {})
    assert.equal(code, 0, said)
    assert.match(said, /^crm\.people +deployed +1\.0\.0/m)
    assert.match(said, /^plan +people\n\w+ +\d+\n/m)
    const four = await readFile(join(ROOT, 'README.md'), 'utf8').then((text) =>
      section(text, 'One row, read four ways'),
    )
    const exported = commands.slice(0, commands.indexOf('  npx '))
    const read = await shell(exported + blocksOf(four, 'sh'), {})
    assert.equal(read.code, 0, read.out)
    const names = [...read.out.matchAll(/\[redacted\]|Grace Ervin/g)].map(([name]) => name)
    const [viewer, developer] = ['[redacted]', 'Grace Ervin']
    assert.deepEqual(names, [viewer, developer, viewer, developer], read.out)
    assert.equal([...read.out.matchAll(/"epoch":1/g)].length, 3, read.out)
    if ((await shell('psql --version', {})).code !== 0) context.diagnostic('no psql: its command is not tried')
    else {
      const psql = await shell(exported + blocksOf(four, 'bash'), {})
      assert.equal(psql.code, 0, psql.out)
      assert.match(psql.out, /\[redacted\] +\| pro\n[^]*full_name +\| text/)
    }
    if (PYTHON === undefined) context.diagnostic('no PyIceberg: the lake is not read')
    else {
      const lake = await shell(`${exported}'${PYTHON}' - <<'END'\n${blocksOf(four, 'python')}END\n`, {})
      assert.equal(lake.code, 0, lake.out)
      assert.match(lake.out, /\[redacted\][^]*Grace Ervin/)
    }
    const login = JSON.parse(/^Source +(\{.*\})$/m.exec(out)?.[1] ?? '{}') as pg.ClientConfig
    const source = new pg.Client({ ...login, ssl: false })
    await source.connect()
    assert.equal((await source.query('SELECT count(*)::int AS n FROM people')).rows[0].n, 2000)
    await source.end()
  } finally {
    demo.kill('SIGTERM')
  }
  assert.equal(await ended, 0, out)
  const [, url = ''] = /^Server +(\S+)$/m.exec(out) ?? []
  await assert.rejects(fetch(`${url}/healthz`), 'the server ended with it')
})

it('the first product with curl leads to rows', async () => {
  const minutes = await readFile(join(ROOT, 'docs/guides/your-first-product.md'), 'utf8')
  const blocks = [...minutes.matchAll(/^```(sh|sql)\n([^]*?)^```$/gm)].map(([, kind, text = '']) => ({ kind, text }))
  const [start, tenant, sql, connection, product, ingest, read, ...more] = blocks
  assert.deepEqual([start?.text.trim(), sql?.kind, more], ['npm start', 'sql', []])

  const data = join(folder, 'data')
  const server = await startCopiedServer(join(folder, 'source'))
  const runtime = await RuntimeProcess.spawn(data, null)
  try {
    const { host, port, user, password } = server.tcpAddress
    for (const [database, text] of [
      ['postgres', 'CREATE DATABASE shop'],
      ['shop', sql?.text ?? ''],
    ] as const) {
      const owner = new pg.Client({ host, port, user, password, database })
      await owner.connect()
      await owner.query(text)
      await owner.end()
    }
    const url = await runtime.address()
    const runs = 'api "$URL/api/v1/ingestion?tenant_id=acme" | grep -q'
    // Tables have a state of their own, which comes before the run's.
    const waiting = `until ${runs} '"finished_at":"'; do sleep 0.3; done\n`
    const steps = [tenant, connection, product, ingest].map((block) => block?.text ?? '').join('\n')
    const own = (text: string) =>
      text.replace('http://127.0.0.1:8080', String(url)).replace('\\"port\\":5432', `\\"port\\":${port}`)
    const command = /`npx (sluice product list [^`]*)`/.exec(minutes)?.[1] ?? ''
    const script = `${own(steps)}\n${waiting}echo ---\n${read?.text}\nnpx ${command}\n`
    const { code, out } = await shell(script, { SLUICE_DATA_DIR: data })
    assert.equal(code, 0, out)
    assert.doesNotMatch(out, /.{0,300}"code":.{0,300}/, 'nothing is refused, and the run has not failed')
    const [before = '', after = ''] = out.split('\n---\n')
    assert.match(before, /"ok":true[^]*"dry_run":true[^]*"deployment":/)
    assert.match(after, /^\{"data":\[\{"person_no":42,"full_name":"\[redacted\]"/)
    assert.match(after, /"ttl_remaining_s":\d+/)
    assert.match(after, /"rows":\[\["TX",100\]\]/)
    assert.match(after, /^crm\.people +deployed +1\.0\.0/m)
    await assertAddresses(String(url))
  } finally {
    await runtime.stop()
    await server.stop()
  }
})

/** Of agents and of what a reader's own plugin adds: no part of the document. */
const UNDECLARED = /^\/mcp$|\/search$/

/** Every address that a guide names is one of the interface, with that method. */
async function assertAddresses(url: string): Promise<void> {
  const document = (await (await fetch(`${url}/openapi.json`)).json()) as {
    readonly paths: Readonly<Record<string, Readonly<Record<string, unknown>>>>
  }
  const known = Object.entries(document.paths).map(([path, methods]) => ({
    methods: Object.keys(methods).map((method) => method.toUpperCase()),
    shape: new RegExp(`^${path.replaceAll(/\{[^}]*\}/g, '[^/]+')}$`),
  }))
  const guides = guidePages().filter(({ path }) => /^(README\.md|docs\/guides\/|deploy\/|examples\/)/.test(path))
  const named = guides.flatMap(({ path, text }) => addressesOf(text).map((address) => ({ page: path, ...address })))
  const unknown = named.filter(
    ({ method, path }) =>
      !UNDECLARED.test(path) &&
      !known.some(({ methods, shape }) => shape.test(path) && (method === null || methods.includes(method))),
  )
  assert.ok(named.length > 60, `${named.length} addresses`)
  assert.deepEqual(
    unknown.map(({ page, line, method, path }) => `${page}:${line}: ${method ?? ''} ${path}`),
    [],
  )
}
