/** `sluice dev`: the real command in a process of its own, on files that are really saved, against a running server. */
import assert from 'node:assert/strict'
import { type ChildProcess, spawn } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { appendFile, mkdir, mkdtemp, readFile, rename, rm, writeFile } from 'node:fs/promises'
import { createServer, request, type Server } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { type Client, type Json, manifests } from './client.ts'
import { type Ended, LAUNCHER, runSluice } from './sluice-command.ts'
import { connect, deployVersion, openWorld, syncNow, type World } from './world.ts'

let world: World
let developer: Client
let folder = ''
let token = ''

const COLUMNS = `  - { name: id, type: integer, role: identity, nullable: false }
  - { name: email, type: string, classification: pii.identifier }
`
const MORE = `${COLUMNS}  - { name: city, type: string }\n`

before(async () => {
  world = await openWorld()
  folder = await mkdtemp(join(tmpdir(), 'sluice-dev-'))
  const [tenant] = world.tenants
  await world.source.query(`
    CREATE TABLE dev_people (id integer PRIMARY KEY, email text, city text);
    INSERT INTO dev_people SELECT i, 'd' || i || '@dev.test', 'city ' || i % 3 FROM generate_series(1, 30) i`)
  await world.createTenant(tenant, 'enterprise')
  token = await world.deployment.token(['--tenant', tenant, '--group', 'svc-developers', '--user', 'dora'])
  developer = await world.as(tenant, 'svc-developers', 'dora')
  await connect(world, developer)
})

after(async () => {
  await world?.close()
  await rm(folder, { recursive: true, force: true })
})

function filesOf(name: string, columns = COLUMNS): Readonly<Record<string, string>> {
  const files = manifests('public.dev_people', { columns, endpoints: '  - type: lookup\n' })
  return { ...files, product: files.product.replace('name: people', `name: ${name}`) }
}

async function put(path: string, files: Readonly<Record<string, string>>): Promise<void> {
  await mkdir(join(folder, path), { recursive: true })
  for (const [part, text] of Object.entries(files)) await writeFile(join(folder, path, `${part}.yaml`), text)
}

const sluice = (...words: string[]): Promise<Ended> =>
  runSluice(words, { url: world.deployment.url, token, cwd: folder })

describe('sluice dev --once', () => {
  it('registers a new product, and says why there are no rows yet', async () => {
    await put('people', filesOf('people'))
    const { code, out, err } = await sluice('dev', 'people', '--once')
    assert.equal(code, 0, err)
    assert.match(out, /^crm\.people \(\.\): initial, 1\.0\.0$/m)
    assert.match(out, /^ {2}read: source: full/m)
    assert.match(out, /no preview: [^]*Deploy the version, then sync the connection "db"/)
    const { body } = await developer.get('/api/v1/products/crm.people')
    assert.deepEqual([body.status, body.current_version], ['ready', null])
  })

  it('shows rows as they would be read, and checks', async () => {
    await deployVersion(developer, 'crm.people', '1.0.0', filesOf('people'))
    await syncNow(developer)
    const { code, out, err } = await sluice('dev', 'people', '--once', '--rows', '3')
    assert.equal(code, 0, err)
    assert.match(out, /as it is deployed \(1\.0\.0\)/)
    assert.match(out, /^ {2}3 of 30 rows, made of the first 10,000 rows of the input at most$/m)
    assert.match(out, /^ {4}id {2}email\*\n {4}1 {3}[0-9a-f]{32}\n/m)
    assert.match(out, /masked for you/)
    assert.match(out, /^ {2}passed: id_unique$/m)
    assert.ok(!out.includes('@dev.test'))
  })

  it('says what changes, and ends with 1 where something is refused', async () => {
    await put('people', filesOf('people', MORE))
    const added = await sluice('dev', 'people', '--once')
    assert.equal(added.code, 0, added.err)
    assert.match(added.out, /additive, 1\.0\.0 -> 1\.1\.0\n {2}additive: output\.schema\.city/)
    await put('people', filesOf('people', COLUMNS.replace(', classification: pii.identifier', '')))
    const lowered = await sluice('dev', 'people', '--once')
    assert.deepEqual(
      [lowered.code, /refused: [^\n]*lower the class of email/.test(lowered.out)],
      [1, true],
      lowered.out,
    )
    assert.match(lowered.out, /no preview: [^\n]*class_lowering_unnamed/)
    const named = await sluice('dev', 'people', '--once', '--lower', 'crm.people.email')
    assert.equal(named.code, 0, named.out)
    assert.match(named.out, /lowers the class of email[^]*@dev\.test/)
    await put('people', {
      ...filesOf('people'),
      compute: `${filesOf('people')['compute']}transform: SELECT 1 AS id, email FROM source\n`,
    })
    const doubled = await sluice('dev', 'people', '--once')
    assert.deepEqual(
      [doubled.code, /a run would fail: [^\n]*\(duplicate_key\)/.test(doubled.out)],
      [1, true],
      doubled.out,
    )
    await put('people', {
      ...filesOf('people'),
      compute: `${filesOf('people')['compute']}transform: SELECT idd FROM source\n`,
    })
    const misspelt = await sluice('dev', 'people', '--once')
    assert.deepEqual([misspelt.code, /compute\.yaml:5:\d+ /.test(misspelt.out)], [1, true], misspelt.out)
    await put('people', filesOf('people'))
  })

  it('gives JSON, and refuses wrong use', async () => {
    const { code, out } = await sluice('dev', 'people', '--once', '--json')
    const { refused, products } = JSON.parse(out) as Json
    assert.deepEqual([code, refused, products.length, products[0].preview.rows.length], [0, false, 1, 10])
    for (const words of [
      ['people', '--rows', '0'],
      ['people', '--rows', '101'],
      ['people', '--rows', 'x'],
      ['nowhere'],
      [],
    ]) {
      const wrong = await sluice('dev', ...words, '--once')
      assert.equal(wrong.code, 2, `${words}: ${wrong.err}`)
    }
    await mkdir(join(folder, 'empty'))
    assert.equal((await sluice('dev', 'empty', '--once')).code, 2)
    const away = await runSluice(['dev', 'people', '--once'], { url: 'http://127.0.0.1:9', token, cwd: folder })
    assert.deepEqual([away.code, /cannot be reached/.test(away.err)], [1, true])
  })
})

/** The command while it watches. */
class Watch {
  readonly child: ChildProcess
  out = ''
  err = ''
  #seen = 0

  constructor(path: string, url = world.deployment.url) {
    const foreign = Object.entries(process.env).filter(([name]) => !name.startsWith('SLUICE_'))
    const env = { ...Object.fromEntries(foreign), SLUICE_URL: url, SLUICE_TOKEN: token }
    this.child = spawn(process.execPath, [LAUNCHER, 'dev', path, '--rows', '2'], { env, cwd: folder })
    this.child.stdout?.on('data', (chunk) => (this.out += chunk))
    this.child.stderr?.on('data', (chunk) => (this.err += chunk))
  }

  /** What was said since the last call, once it has the words. */
  async until(words: RegExp, where: 'out' | 'err' = 'out'): Promise<string> {
    for (;;) {
      const said = where === 'out' ? this.out.slice(this.#seen) : this.err
      if (words.test(said)) {
        this.#seen = this.out.length
        return said
      }
      assert.equal(this.child.exitCode, null, `it ended: ${this.out}${this.err}`)
      await new Promise((resolve) => setTimeout(resolve, 50))
    }
  }

  get rounds(): number {
    return this.out.match(/^\d\d:\d\d:\d\d$/gm)?.length ?? 0
  }

  async end(signal: NodeJS.Signals = 'SIGINT'): Promise<void> {
    if (this.child.exitCode !== null || this.child.signalCode !== null) return
    const ended = new Promise((resolve) => this.child.once('exit', resolve))
    this.child.kill(signal)
    await ended
  }
}

/** Of checks, each of which is in the answers of one save alone. */
let marks = 0
const newMark = (): string => `mark_${(marks += 1)}`
const qualityOf = (mark: string) => `apiVersion: svc/v1\nkind: Quality\nchecks:\n  - { name: ${mark}, unique: [id] }\n`
const passed = (mark: string) => new RegExp(`passed: ${mark}$`, 'm')

describe('sluice dev', () => {
  let watch: Watch
  const at = (part: string) => join(folder, 'watched', `${part}.yaml`)

  /** By way of another file, as some editors do. */
  async function replace(part: string, text: string): Promise<void> {
    await writeFile(`${at(part)}.new`, text)
    await rename(`${at(part)}.new`, at(part))
  }

  before(async () => {
    await put('watched', filesOf('watched'))
    watch = new Watch('watched')
    await watch.until(/passed: id_unique/)
  })

  after(() => watch?.end())

  it('plans again when a file is written anew, and when another is put in its place', async () => {
    const [first, second] = [newMark(), newMark()]
    await writeFile(at('quality'), qualityOf(first))
    assert.match(await watch.until(passed(first)), /\n {4}id {2}email\*\n/)
    await replace('quality', qualityOf(second))
    await watch.until(passed(second))
    await replace('output', filesOf('watched', MORE)['output'] as string)
    assert.match(await watch.until(passed(second)), /\n {4}id {2}email\* +city\n/)
  })

  it('plans the last of a burst of saves', async () => {
    const burst = Array.from({ length: 20 }, newMark)
    for (const mark of burst) writeFileSync(at('quality'), qualityOf(mark))
    const last = burst.at(-1) as string
    const said = await watch.until(passed(last))
    assert.ok(burst.filter((mark) => passed(mark).test(said)).length < 10, said)
  })

  it('says where a file is broken, and goes on when it is mended', async () => {
    await appendFile(at('output'), '  nonsense: [\n')
    await watch.until(/refused: [^]*output\.yaml:\d+:\d+ /)
    await appendFile(at('product'), ': {\n')
    await watch.until(/refused: [^]*product\.yaml:\d+:\d+ /)
    await rm(at('serving'))
    await watch.until(/refused: [^]*lacks serving\.yaml/)
    const mark = newMark()
    await put('watched', { ...filesOf('watched'), quality: qualityOf(mark) })
    await watch.until(passed(mark))
  })

  it('goes on when the folder was away for a while', async () => {
    await rename(join(folder, 'watched'), join(folder, 'elsewhere'))
    await watch.until(/cannot be read: it does not exist/, 'err')
    const mark = newMark()
    await writeFile(join(folder, 'elsewhere', 'quality.yaml'), qualityOf(mark))
    await rename(join(folder, 'elsewhere'), join(folder, 'watched'))
    await watch.until(passed(mark))
  })

  it('plans what is saved again without a change, and nothing for other files', async () => {
    const mark = newMark()
    await replace('quality', qualityOf(mark))
    await watch.until(passed(mark))
    const before = watch.rounds
    await writeFile(join(folder, 'watched', 'notes.txt'), 'x')
    await writeFile(at('inputs'), await readFile(at('inputs'), 'utf8'))
    await watch.until(passed(mark))
    assert.equal(watch.rounds, before + 1)
  })

  it('plans of several products those that were saved', async () => {
    await put('both/one', filesOf('one'))
    await put('both/two', filesOf('two'))
    const other = new Watch('both')
    try {
      const first = await other.until(/crm\.two[^]*passed: id_unique/)
      assert.match(first, /crm\.one \(one\)[^]*crm\.two \(two\)/)
      const mark = newMark()
      await writeFile(join(folder, 'both/two/quality.yaml'), qualityOf(mark))
      assert.doesNotMatch(await other.until(passed(mark)), /crm\.one/)
    } finally {
      await other.end()
    }
  })

  it('ends when nobody reads it any more', async () => {
    await put('unread', filesOf('unread'))
    const other = new Watch('unread')
    const ended = new Promise((resolve) => other.child.once('exit', resolve))
    await other.until(/passed: id_unique/)
    other.child.stdout?.destroy()
    await writeFile(join(folder, 'unread/quality.yaml'), qualityOf(newMark()))
    assert.equal(await ended, 1)
  })

  it('ends with Ctrl-C', async () => {
    await watch.end('SIGINT')
    assert.equal(watch.child.signalCode, 'SIGINT')
  })
})

/** Between the command and the server: it can be shut and opened again, and can hold back an answer. */
class Gate {
  #server: Server | null = null
  port = 0
  /** Paths whose answers wait for it. */
  held: { readonly path: RegExp; readonly until: Promise<void>; readonly isAsked: () => void } | null = null

  get url(): string {
    return `http://127.0.0.1:${this.port}`
  }

  async open(): Promise<void> {
    const { hostname, port } = new URL(world.deployment.url)
    const server = createServer((incoming, outgoing) => {
      const { method, url: path = '', headers } = incoming
      const inner = request({ hostname, port, method, path, headers }, async (answer) => {
        const { held } = this
        if (held?.path.test(path)) {
          held.isAsked()
          await held.until
        }
        outgoing.writeHead(answer.statusCode ?? 500, answer.headers)
        answer.pipe(outgoing)
      })
      inner.on('error', () => outgoing.destroy())
      incoming.pipe(inner)
    })
    await new Promise<void>((resolve) => server.listen(this.port, '127.0.0.1', resolve))
    this.port = (server.address() as { readonly port: number }).port
    this.#server = server
  }

  async shut(): Promise<void> {
    const server = this.#server
    this.#server = null
    if (server === null) return
    server.closeAllConnections()
    await new Promise((resolve) => server.close(resolve))
  }
}

describe('sluice dev and its server', () => {
  let gate: Gate
  let watch: Watch
  const save = async (): Promise<string> => {
    const mark = newMark()
    await writeFile(join(folder, 'gated/quality.yaml'), qualityOf(mark))
    return mark
  }

  before(async () => {
    gate = new Gate()
    await gate.open()
    await put('gated', filesOf('gated'))
    watch = new Watch('gated', gate.url)
    await watch.until(/passed: id_unique/)
  })

  after(async () => {
    await watch?.end()
    await gate?.shut()
  })

  it('plans what was saved during a plan after it', async () => {
    const asked = Promise.withResolvers<void>()
    const answered = Promise.withResolvers<void>()
    gate.held = { path: /\/deploy$/, until: answered.promise, isAsked: asked.resolve }
    const first = await save()
    await asked.promise
    const second = await save()
    gate.held = null
    answered.resolve()
    assert.match(await watch.until(passed(second)), passed(first))
  })

  it('says that the server is away, once, and goes on when it is back', async () => {
    await gate.shut()
    await save()
    await watch.until(/cannot be reached[^]*Waiting for it/, 'err')
    const last = await save()
    await gate.open()
    await watch.until(passed(last))
    assert.equal(watch.err.match(/Waiting for it/g)?.length, 1)
  })
})
