/** `sluice apply` and `sluice drift`: the real command on folders of products, against a running server. */
import assert from 'node:assert/strict'
import { mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { apply } from '../runtime/src/command/apply.ts'
import { callOf, type Ending } from '../runtime/src/command/command.ts'
import { type Client, type Json, manifests, ok } from './client.ts'
import { type Ended, runSluice } from './sluice-command.ts'
import { connect, openWorld, syncNow, type World } from './world.ts'

let world: World
let developer: Client
let folder = ''
let token = ''

before(async () => {
  world = await openWorld()
  folder = await mkdtemp(join(tmpdir(), 'sluice-apply-'))
  const [tenant] = world.tenants
  await world.source.query(`
    CREATE TABLE apply_people (id integer PRIMARY KEY, email text, city text);
    INSERT INTO apply_people SELECT i, 'a' || i || '@a.test', 'city ' || i FROM generate_series(1, 20) i`)
  await world.createTenant(tenant, 'enterprise')
  const flags = ['--tenant', tenant, '--group', 'svc-developers', '--user', 'dora']
  token = await world.deployment.token(flags)
  developer = await world.as(tenant, 'svc-developers', 'dora')
  await connect(world, developer)
})

after(async () => {
  await world?.close()
  await rm(folder, { recursive: true, force: true })
})

function sluice(...words: string[]): Promise<Ended> {
  return runSluice(words, { url: world.deployment.url, token, cwd: folder })
}

async function json(expected: number, ...words: string[]): Promise<Json> {
  const { code, out, err } = await sluice(...words, '--json')
  assert.equal(code, expected, `${words.join(' ')}: ${err}${out}`)
  return JSON.parse(out)
}

const actions = ({ products }: Json) => products.map((one: Json) => [one.product, one.action, one.version])

interface Wanted {
  /** namespace.name */
  readonly product: string
  readonly columns?: string
  readonly quality?: string
  readonly after?: readonly string[]
  readonly description?: string
  readonly where?: string
  /** It is made of that product, and of no table. */
  readonly of?: string
}

const COLUMNS = `  - { name: id, type: integer, role: identity, nullable: false }
  - { name: email, type: string, classification: pii.identifier }
`
const MORE_COLUMNS = `${COLUMNS}  - { name: city, type: string }\n`
const FAILING = 'checks:\n  - { name: too_few, row_count: { min: 1000 } }\n'

/** Writes the six files into a folder of that path. */
async function put(path: string, wanted: Wanted): Promise<void> {
  const dot = wanted.product.lastIndexOf('.')
  const [namespace, name] = [wanted.product.slice(0, dot), wanted.product.slice(dot + 1)]
  const { columns = COLUMNS, quality, after: follows, description = 'as it is', where, of } = wanted
  const files = manifests('public.apply_people', { columns, endpoints: '  - type: lookup\n' })
  const schedule = follows && `trigger: schedule\nschedule: { after: [${follows.join(', ')}] }`
  const texts: Readonly<Record<string, string>> = {
    ...files,
    product: `${files.product}description: ${JSON.stringify(description)}\n`
      .replace('name: people', `name: ${name}`)
      .replace('source_aligned', of === undefined ? 'source_aligned' : 'aggregate')
      .replace('namespace: crm', `namespace: ${namespace}`),
    ...(where === undefined ? {} : { inputs: files.inputs.replace('mode: full', `mode: full, where: "${where}"`) }),
    ...(of === undefined ? {} : { inputs: files.inputs.replace(/- \{.*\}/, `- { name: source, product: ${of} }`) }),
    ...(quality === undefined ? {} : { quality: `apiVersion: svc/v1\nkind: Quality\n${quality}` }),
    ...(schedule === undefined ? {} : { compute: files.compute.replace('trigger: on_ingestion', schedule) }),
  }
  await mkdir(join(folder, path), { recursive: true })
  for (const [part, text] of Object.entries(texts)) await writeFile(join(folder, path, `${part}.yaml`), text)
}

const product = async (name: string): Promise<Json> => (await developer.get(`/api/v1/products/${name}`)).body

describe('sluice apply', () => {
  it('plans a folder without writing anything, and asks before it does', async () => {
    await put('all/crm/people', { product: 'crm.people' })
    await put('all/crm/deep/er/towns', { product: 'crm.towns', after: ['crm.people'] })
    const plan = await json(2, 'apply', 'all', '--check')
    assert.deepEqual(actions(plan), [
      ['crm.people', 'create', '1.0.0'],
      ['crm.towns', 'create', null],
    ])
    assert.deepEqual(plan.products[1].waits_for, ['crm.people'])
    const { code, err, out } = await sluice('apply', 'all')
    assert.deepEqual([code, /no terminal to ask on[^]*--yes deploys without asking/.test(err)], [1, true], err)
    assert.match(out, /^product +action +version +verdict +warnings\ncrm\.people +create +1\.0\.0 +initial/)
    assert.ok(!out.includes('\u001b'), 'no colours where there is no terminal')
    assert.equal((await developer.get('/api/v1/products')).body.data.length, 0)
  })

  it('deploys what is new in the order that it needs, and nothing the second time', async () => {
    const first = await sluice('apply', 'all', '--yes')
    assert.equal(first.code, 0, first.err)
    assert.match(first.out, /Deployed: crm\.people 1\.0\.0, crm\.towns 1\.0\.0\n[^]*sluice sync db/)
    await syncNow(developer)
    const second = await sluice('apply', 'all')
    assert.equal(second.code, 0, second.err)
    assert.match(second.out, /crm\.people +unchanged +1\.0\.0\ncrm\.towns +unchanged +1\.0\.0\n2 unchanged\./)
    assert.deepEqual(actions(await json(0, 'apply', 'all', '--check')), [
      ['crm.people', 'unchanged', '1.0.0'],
      ['crm.towns', 'unchanged', '1.0.0'],
    ])
    assert.equal((await developer.get('/api/v1/products/crm.people/deployments')).body.data.length, 1)
  })

  it('chooses the version by what changes, and waits for the content', async () => {
    await put('all/crm/people', { product: 'crm.people', description: 'said better' })
    const patched = await json(0, 'apply', 'all', '--yes')
    assert.deepEqual(patched.result.deployed, [{ product: 'crm.people', version: '1.0.1' }])
    await put('all/crm/people', { product: 'crm.people', description: 'said better', columns: MORE_COLUMNS })
    const { code, out, err } = await sluice('apply', 'all', '--yes')
    assert.equal(code, 0, err)
    assert.match(out, /crm\.people +change +1\.0\.1 -> 1\.1\.0 +additive/)
    assert.match(out, /additive: output\.schema\.city/)
    const { current_version: version, last_materialization: made } = await product('crm.people')
    assert.deepEqual([version, made.version, made.rows], ['1.1.0', '1.1.0', 20])
  })

  it('deploys nothing where one is refused, and what breaks readers only by name', async () => {
    await put('all/crm/people', { product: 'crm.people' })
    await put('all/crm/towns', { product: 'crm.villages' })
    const { code, out, err } = await sluice('apply', 'all', '--yes')
    assert.deepEqual([code, /a product is refused, and nothing was done/.test(err)], [1, true], err)
    assert.match(out, /crm\.people +refused +1\.1\.0 +breaking[^]*--breaking crm\.people deploys it as 2\.0\.0/)
    assert.match(out, /crm\.villages +create +1\.0\.0/)
    assert.equal((await developer.get('/api/v1/products/crm.villages')).status, 404)
    assert.deepEqual(actions(await json(1, 'apply', 'all', '--check'))[0], ['crm.people', 'refused', null])
    const named = await json(0, 'apply', 'all', '--yes', '--breaking', 'crm.people')
    assert.deepEqual(named.result.deployed, [
      { product: 'crm.people', version: '2.0.0' },
      { product: 'crm.villages', version: '1.0.0' },
    ])
    await put('all/crm/towns', { product: 'crm.villages', description: 'small' })
    const numbered = await json(0, 'apply', 'all', '--yes', '--version', '3.0.0')
    assert.deepEqual(numbered.result.deployed, [{ product: 'crm.villages', version: '3.0.0' }])
    for (const [words, said] of [
      [['--version', 'three'], /--version is a semantic version such as 1\.0\.0, and not "three"/],
      [['--breaking', 'crm.peple'], /the folder has no product of "crm\.peple"/],
      [['--breaknig', 'crm.people'], /did you mean --breaking/],
    ] as const) {
      const wrong = await sluice('apply', 'all', ...words)
      assert.deepEqual([wrong.code, said.test(wrong.err)], [1, true], wrong.err)
    }
  })

  it('lowers the class of a column by its name alone', async () => {
    await put('low/a', { product: 'low.a' })
    await json(0, 'apply', 'low', '--yes')
    await put('low/a', { product: 'low.a', columns: COLUMNS.replace(', classification: pii.identifier', '') })
    const { code, out } = await sluice('apply', 'low', '--yes')
    assert.deepEqual(
      [
        code,
        /low\.a +refused[^]*lower the class of email \(class_lowering_unnamed\)[^]*--lower low\.a\.email/.test(out),
      ],
      [1, true],
      out,
    )
    const { products, result } = await json(0, 'apply', 'low', '--yes', '--lower', 'low.a.email')
    assert.deepEqual([products[0].lowered_classes, result.deployed.length], [['email'], 1])
  })

  it('says all problems of all files at once, with a server’s word for what it knows better', async () => {
    await put('bad/one', { product: 'bad.one', columns: '  - { name: id, type: integr }\n' })
    await put('bad/two', { product: 'bad.two', columns: '  - { name: id, type: strng }\n' })
    await put('bad/three', { product: 'bad.three' })
    const { code, err } = await sluice('apply', 'bad', '--yes')
    assert.equal(code, 1, err)
    assert.match(err, /one\/output\.yaml:\d+:\d+ .*integr[^]*two\/output\.yaml:\d+:\d+ .*strng/)
    assert.equal((await developer.get('/api/v1/products/bad.three')).status, 404)
    await rm(join(folder, 'bad/two/serving.yaml'))
    await put('bad/again', { product: 'bad.three' })
    const files = await sluice('apply', 'bad', '--check')
    assert.deepEqual([files.code, (files.err.match(/^ {2}\S/gm) ?? []).length], [1, 2], files.err)
    assert.match(files.err, /two lacks serving\.yaml[^]*bad\.three is in several folders: again, three/)
    // What this machine's configuration refuses, the server is asked about.
    await put('hourly/a', { product: 'bad.hourly' })
    const compute = `apiVersion: svc/v1\nkind: Compute\ntrigger: schedule\nschedule: { every: 1h }\n`
    await writeFile(join(folder, 'hourly/a/compute.yaml'), compute)
    await writeFile(join(folder, 'strict.yaml'), 'limits: { schedule_interval_ms: 86400000 }\n')
    const strict = ['--config', 'strict.yaml'] as const
    assert.match(
      (await sluice('product', 'lint', 'hourly/a', ...strict)).err,
      /comes more often than every 86400 seconds/,
    )
    assert.deepEqual(actions(await json(2, 'apply', 'hourly', '--check', ...strict)), [
      ['bad.hourly', 'create', '1.0.0'],
    ])
    const none = await sluice('apply', 'all/crm/people/nothing')
    assert.deepEqual([none.code, /cannot be read: it does not exist/.test(none.err)], [1, true], none.err)
    await mkdir(join(folder, 'empty'))
    assert.match((await sluice('apply', 'empty')).err, /empty has no product/)
  })

  it('names a circle, and a product that is nowhere', async () => {
    await put('round/a', { product: 'round.a', after: ['round.b'] })
    await put('round/b', { product: 'round.b', after: ['round.c'] })
    await put('round/c', { product: 'round.c', after: ['round.a'] })
    const { code, err } = await sluice('apply', 'round', '--yes')
    assert.equal(code, 1)
    assert.match(err, /in a circle: round\.a names round\.b, which names round\.c, which names round\.a/)
    await put('round/c', { product: 'round.c', after: ['round.nowhere'] })
    const { out } = await sluice('apply', 'round', '--yes')
    assert.match(out, /round\.c +refused[^]*it names round\.nowhere, which is neither in the folder nor on the server/)
    assert.match(out, /round\.b \(b\):\n {2}refused: it names round\.c, which is refused/)
    assert.equal((await developer.get('/api/v1/products/round.a')).status, 404)
  })

  it('stops at the first failure, says what was done and what not, and goes on from there', async () => {
    await put('half/a', { product: 'half.a' })
    await put('half/b', { product: 'half.b', quality: FAILING })
    await put('half/c', { product: 'half.c' })
    const { code, out, err } = await sluice('apply', 'half', '--yes')
    assert.equal(code, 1, out)
    assert.match(out, /Deployed: half\.a 1\.0\.0, half\.b 1\.0\.0\nNot done: half\.c$/m)
    assert.match(err, /half\.b: version 1\.0\.0 is deployed, and its content was not made: the run failed/)
    assert.match(err, /sluice product materialize half\.b/)
    await put('half/b', { product: 'half.b' })
    const { result, products } = await json(0, 'apply', 'half', '--yes')
    assert.deepEqual(
      products.map((one: Json) => one.action),
      ['unchanged', 'change', 'create'],
    )
    assert.deepEqual(result.deployed, [
      { product: 'half.b', version: '1.0.1' },
      { product: 'half.c', version: '1.0.0' },
    ])
    // One that is refused when its turn comes: it could not be planned before.
    await put('half/d', { product: 'half.d' })
    await put('half/e', {
      product: 'half.e',
      after: ['half.d'],
      quality: 'checks:\n  - { name: odd, sql: "SELECT nothing FROM {{this}}" }\n',
    })
    await put('half/f', { product: 'half.f', after: ['half.e'] })
    const refused = await sluice('apply', 'half', '--yes', '--json')
    assert.equal(refused.code, 1, refused.err)
    const told = JSON.parse(refused.out).result
    assert.deepEqual([told.deployed, told.not_done], [[{ product: 'half.d', version: '1.0.0' }], ['half.f']])
    assert.match(told.failed.message, /check_invalid|nothing/)
    assert.match(refused.err, /half\.e: [^]*what is done is unchanged then/)
    await put('half/e', { product: 'half.e', after: ['half.d'] })
    const rest = (await json(0, 'apply', 'half', '--yes')).result.deployed
    assert.deepEqual(
      rest.map((one: Json) => one.product),
      ['half.e', 'half.f'],
    )
  })

  it('removes what the folder has not any more where that is said twice', async () => {
    await rm(join(folder, 'half/b'), { recursive: true })
    await rm(join(folder, 'half/e'), { recursive: true })
    await put('half/f', { product: 'half.f' })
    const kept = await sluice('apply', 'half', '--yes')
    assert.match(kept.out, /Not in the folder, and left as they are \(--prune removes them\): half\.b, half\.e/)
    assert.equal((await developer.get('/api/v1/products/half.b')).status, 200)
    const plan = await json(2, 'apply', 'half', '--check', '--prune')
    assert.deepEqual(plan.removed.map((one: Json) => one.product).sort(), ['half.b', 'half.e'])
    const unsaid = await sluice('apply', 'half', '--yes', '--prune')
    assert.deepEqual([unsaid.code, /--yes-prune removes products without asking/.test(unsaid.err)], [1, true])
    assert.equal((await developer.get('/api/v1/products/half.b')).status, 200)
    const { result } = await json(0, 'apply', 'half', '--yes', '--prune', '--yes-prune')
    assert.deepEqual([...result.removed].sort(), ['half.b', 'half.e'])
    assert.equal((await developer.get('/api/v1/products/half.b')).status, 404)
    assert.equal((await developer.get('/api/v1/products/crm.people')).status, 200, 'other namespaces stay')
    await json(0, 'apply', 'half', '--check', '--prune')
    await rm(join(folder, 'half/a'), { recursive: true })
    await put('half/f', { product: 'half.f', after: ['half.a'] })
    const needed = await sluice('apply', 'half', '--prune', '--yes', '--yes-prune')
    assert.deepEqual([needed.code, /half\.f of the folder names half\.a/.test(needed.err)], [1, true], needed.err)
  })

  it('does not do again what was rolled back', async () => {
    await put('back/a', { product: 'back.a' })
    await json(0, 'apply', 'back', '--yes')
    await put('back/a', { product: 'back.a', columns: MORE_COLUMNS })
    await json(0, 'apply', 'back', '--yes')
    const asked = await sluice('product', 'rollback', 'back.a', '--version', '1.0.0')
    assert.equal(asked.code, 0, asked.err)
    const { code, out } = await sluice('apply', 'back', '--yes')
    assert.equal(code, 1)
    assert.match(out, /back\.a +refused[^]*it was rolled back from this to version 1\.0\.0 at [^]*--version 1\.1\.0/)
    await put('back/a', { product: 'back.a', columns: MORE_COLUMNS, description: 'mended' })
    const { result, products } = await json(0, 'apply', 'back', '--yes')
    assert.deepEqual(result.deployed, [{ product: 'back.a', version: '1.2.0' }])
    assert.match(products[0].warnings.join(), /paused since the rollback/)
    assert.equal((await product('back.a')).paused, null)
  })

  it('asks whoever is there, and does nothing without a yes', async () => {
    await put('asked/a', { product: 'asked.a' })
    await put('asked/b', { product: 'asked.b' })
    const answered = async (answers: string[], flags: Readonly<Record<string, string>> = {}) => {
      const asked: string[] = []
      const ask = async (question: string) => {
        asked.push(question)
        return answers.shift() ?? ''
      }
      const words = [join(folder, 'asked')]
      const call = callOf({ words, flags: { url: world.deployment.url, json: 'true', ...flags } }, words, {
        environment: {},
        flags: { 'data-dir': folder },
      })
      const done = await apply(call, { isTerminal: true, ask }).then(
        (said) => (said as Json).result,
        (error: Error) => error.message,
      )
      return [asked, done]
    }
    process.env['SLUICE_TOKEN'] = token
    try {
      const deploy = 'Deploy these 2 products? [y/N] '
      assert.deepEqual(await answered(['']), [[deploy], 'nothing was done: it was not confirmed'])
      assert.equal((await developer.get('/api/v1/products/asked.a')).status, 404)
      const [, { deployed }] = (await answered(['Yes'])) as [string[], Json]
      assert.deepEqual(
        deployed.map((one: Json) => one.product),
        ['asked.a', 'asked.b'],
      )
      await rm(join(folder, 'asked/b'), { recursive: true })
      const remove = 'asked.b: removed with every copy of the data. Type 1 to do so: '
      assert.deepEqual(await answered(['y'], { prune: 'true' }), [[remove], 'nothing was done: it was not confirmed'])
      const [, { removed }] = (await answered(['1'], { prune: 'true' })) as [string[], Json]
      assert.deepEqual(removed, ['asked.b'])
    } finally {
      delete process.env['SLUICE_TOKEN']
    }
  })

  it('deploys nothing over what somebody else has deployed since the plan', async () => {
    await put('asked/a', { product: 'asked.a', description: 'mine' })
    const call = callOf({ words: [], flags: { url: world.deployment.url, json: 'true' } }, [join(folder, 'asked')], {
      environment: {},
      flags: { 'data-dir': folder },
    })
    const ask = async () => {
      await put('theirs', { product: 'asked.a', description: 'theirs' })
      const { code, err } = await sluice('product', 'deploy', 'theirs', '--version', '1.5.0')
      assert.equal(code, 0, err)
      return 'y'
    }
    process.env['SLUICE_TOKEN'] = token
    const { code, reason } = (await apply(call, { isTerminal: true, ask }).finally(() => {
      delete process.env['SLUICE_TOKEN']
    })) as Ending
    assert.deepEqual(
      [code, /somebody has deployed 1\.5\.0 since it was planned/.test(reason ?? '')],
      [1, true],
      reason ?? '',
    )
    assert.equal((await product('asked.a')).description, 'theirs')
    assert.deepEqual((await json(0, 'apply', 'asked', '--yes')).result.deployed[0].version, '1.5.1')
  })

  it('takes nothing on trust from names of files and words in them', async () => {
    await put('odd/\u001b[31m\u202ered\n', { product: 'odd.red', columns: '  - { name: "a\\e[2Jb", type: strng }\n' })
    await put('odd/-- flag; $(touch x)', { product: 'odd.flag' })
    const { code, err } = await sluice('apply', 'odd', '--yes')
    assert.equal(code, 1)
    assert.ok(!err.includes('\u001b') && !err.includes('\u202e'), err)
    assert.match(err, /^ {2}·\[31m·red·\/output\.yaml:\d+:\d+ /m)
    await rm(join(folder, 'odd'), { recursive: true })
    await put('odd/-- flag; $(touch x)', { product: 'odd.flag' })
    await put('odd/up', { product: '../../tenants/x.y' })
    await put('odd/.hidden', { product: 'odd.hidden' })
    const wrong = await sluice('apply', 'odd', '--yes')
    assert.deepEqual(
      [wrong.code, /up\/product\.yaml: the namespace must begin with/.test(wrong.err)],
      [1, true],
      wrong.err,
    )
    await rm(join(folder, 'odd/up'), { recursive: true })
    assert.deepEqual(actions(await json(2, 'apply', 'odd', '--check')), [['odd.flag', 'create', '1.0.0']])
    await symlink(folder, join(folder, 'odd/around'))
    assert.match((await sluice('apply', 'odd')).err, /around is a link to a folder/)
    await rm(join(folder, 'odd/around'))
    await put(`odd/${'d/'.repeat(9)}`, { product: 'odd.deep' })
    assert.match((await sluice('apply', 'odd')).err, /lies deeper than 8 folders/)
    await rm(join(folder, 'odd/d'), { recursive: true })
    await rm(join(folder, 'odd/-- flag; $(touch x)/quality.yaml'))
    await symlink('/dev/zero', join(folder, 'odd/-- flag; $(touch x)/quality.yaml'))
    assert.match((await sluice('apply', 'odd')).err, /quality\.yaml is no file/)
  })

  it('deploys products that are made of each other, and changes them together', async () => {
    const plain = '  - { name: id, type: integer, role: identity, nullable: false }\n  - { name: city, type: string }\n'
    const narrow = plain.replace(/.*city.*\n/, '')
    await put('made/a/second', { product: 'made.second', of: 'made.base', columns: plain })
    await put('made/a/third', { product: 'made.third', of: 'made.second', columns: plain })
    await put('made/z/base', { product: 'made.base', columns: plain })
    const first = await json(0, 'apply', 'made', '--yes')
    assert.deepEqual(
      first.result.deployed.map((one: Json) => one.product),
      ['made.base', 'made.second', 'made.third'],
    )
    await syncNow(developer)
    const rows = async () =>
      (await ok(developer.post('/api/v1/query', { sql: 'SELECT count(*) AS n FROM made.third' }))).rows.length
    assert.equal(await rows(), 1)
    await put('made/z/base', { product: 'made.base', columns: narrow })
    const broken = await sluice('apply', 'made', '--yes', '--breaking', 'made.base')
    assert.equal(broken.code, 1)
    assert.match(broken.out, /made\.second.*breaks_downstream/s)
    await put('made/a/second', { product: 'made.second', of: 'made.base', columns: narrow })
    await put('made/a/third', { product: 'made.third', of: 'made.second', columns: narrow })
    const breaking = ['--breaking', 'made.base,made.second,made.third']
    const together = await sluice('apply', 'made', '--yes', ...breaking)
    assert.equal(together.code, 0, together.err + together.out)
    assert.equal((await sluice('apply', 'made')).code, 0)
    const wider = `${narrow}  - { name: email, type: string, classification: pii.identifier }\n`
    for (const [path, of] of [['z/base'], ['a/second', 'made.base'], ['a/third', 'made.second']] as const) {
      const name = `made.${path.slice(2)}`
      await put(`made/${path}`, { product: name, columns: wider, ...(of === undefined ? {} : { of }) })
    }
    const widened = await sluice('apply', 'made', '--yes')
    assert.equal(widened.code, 0, widened.err + widened.out)
    await put('made/z/base', { product: 'made.base', of: 'made.third', columns: wider })
    assert.match((await sluice('apply', 'made')).err, /made\.base/)
  })
})

describe('sluice drift', () => {
  const kinds = ({ drifts }: Json) => drifts.map((one: Json) => [one.product, one.kind])

  before(async () => {
    for (const name of ['a', 'b', 'c']) await put(`now/${name}`, { product: `now.${name}` })
    await json(0, 'apply', 'now', '--yes')
  })

  it('finds nothing where the server is as the folder says, in whatever words', async () => {
    const { code, out, err } = await sluice('drift', 'now')
    assert.deepEqual([code, /Nothing has drifted/.test(out)], [0, true], `${out}${err}`)
    const compute = join(folder, 'now/a/compute.yaml')
    await writeFile(compute, 'kind: Compute # in other words\napiVersion: svc/v1\n')
    assert.deepEqual(await json(0, 'drift', 'now'), { drifted: false, drifts: [] })
  })

  it('names by file and key what differs, what is missing and what is extra', async () => {
    await put('now/a', { product: 'now.a', columns: MORE_COLUMNS, description: 'other' })
    await put('now/new', { product: 'now.new' })
    await rm(join(folder, 'now/c'), { recursive: true })
    const found = await json(2, 'drift', 'now')
    assert.deepEqual(kinds(found), [
      ['now.a', 'changed'],
      ['now.a', 'changed'],
      ['now.new', 'missing'],
      ['now.c', 'extra'],
    ])
    const [description, column] = found.drifts
    assert.deepEqual(
      [description.file, description.key, description.folder, description.deployed],
      ['product.yaml', 'description', 'other', 'as it is'],
    )
    assert.deepEqual(
      [column.file, column.key, column.folder.name, column.deployed],
      ['output.yaml', 'schema[city]', 'city', null],
    )
    const { code, out } = await sluice('drift', 'now')
    assert.equal(code, 2)
    assert.match(out, /^now\.a:\n {2}changed: product\.yaml description: "other" in the folder, "as it is" deployed$/m)
    await put('now/a', { product: 'now.a' })
    await put('now/c', { product: 'now.c' })
    await rm(join(folder, 'now/new'), { recursive: true })
    await json(0, 'drift', 'now')
  })

  it('tells drafts that were left, rollbacks, and products that fail', async () => {
    const texts = { ...manifests('public.apply_people', { columns: MORE_COLUMNS }) }
    const named = { ...texts, product: texts.product.replace('people', 'a').replace('crm', 'now') }
    await ok(developer.upload('/api/v1/products/now.a/manifests', named))
    assert.deepEqual(kinds(await json(2, 'drift', 'now')), [['now.a', 'draft_left']])
    await put('now/a', { product: 'now.a', columns: MORE_COLUMNS })
    await json(0, 'apply', 'now', '--yes')
    await json(0, 'drift', 'now')
    const back = await sluice('product', 'rollback', 'now.a', '--version', '1.0.0')
    assert.equal(back.code, 0, back.err)
    assert.deepEqual(kinds(await json(2, 'drift', 'now')), [
      ['now.a', 'changed'],
      ['now.a', 'rolled_back'],
    ])
    await put('now/b', { product: 'now.b', quality: FAILING })
    const failing = await sluice('apply', 'now', '--yes', '--breaking', 'now.b')
    assert.equal(failing.code, 1)
    assert.match(failing.out, /now\.a +refused/)
    await put('now/a', { product: 'now.a' })
    assert.equal((await sluice('apply', 'now', '--yes')).code, 1)
    const told = (await json(2, 'drift', 'now')).drifts.filter((one: Json) => one.product === 'now.b')
    assert.ok(
      told.some((one: Json) => one.kind === 'failing' && /sluice logs run_/.test(one.message)),
      JSON.stringify(told),
    )
    assert.ok(told.some((one: Json) => one.kind === 'failing' && /from being published/.test(one.message)))
    const again = await json(0, 'apply', 'now')
    assert.match(again.products.find((one: Json) => one.product === 'now.b').warnings.join(), /last run failed/)
  })
})
