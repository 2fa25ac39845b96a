import assert from 'node:assert/strict'
import { mkdir, mkdtemp, readdir, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { parse } from 'yaml'
import { loadConfig } from '../../config.ts'
import type { ParsedManifests } from '../../manifest/parse-manifests.ts'
import { manifestParser } from '../lint.ts'
import { fieldOf, projectOf, readProject } from './artifacts.ts'
import { type Carried, type Choices, carryProject, knownKey, type Outcome } from './carry.ts'
import { checkFree, writeProducts } from './folder.ts'
import { withJudge } from './judge.ts'

const CHOICES: Choices = { connection: 'db', namespace: null, tables: new Set(), sensitive: [] }
const ORDERS = { resource_type: 'source', name: 'orders', database: 'w', schema: 'shop', identifier: 'orders' }
const COLUMNS = { id: { name: 'id', data_type: 'integer' }, email: { name: 'email', data_type: 'text' } }

interface Model {
  readonly [field: string]: unknown
}

function model(name: string, more: Model = {}): Model {
  const config = { materialized: 'table', ...(more['config'] as object | undefined) }
  const fields = { resource_type: 'model', name, alias: name, database: 'w', schema: 'marts', columns: COLUMNS }
  const compiled_code = 'select id, email from w.shop.orders'
  return { ...fields, compiled_code, depends_on: { nodes: ['source.orders'] }, ...more, config }
}

const made = (of: string) => ({ depends_on: { nodes: [`model.${of}`] }, compiled_code: `select * from w.marts.${of}` })

function manifestOf(models: readonly Model[], sources: object = { 'source.orders': ORDERS }): unknown {
  const nodes = Object.fromEntries(models.map((one) => [`${one['resource_type']}.${one['name']}`, one]))
  return { metadata: { dbt_schema_version: 'v12', adapter_type: 'postgres' }, nodes, sources }
}

let folder = ''
let check: (texts: Readonly<Record<string, string>>) => ParsedManifests

before(async () => {
  folder = await mkdtemp(join(tmpdir(), 'sluice-dbt-carry-'))
  check = await manifestParser(loadConfig({ environment: {}, flags: {} }))
})
after(() => rm(folder, { recursive: true, force: true }))

const carried = (manifest: unknown, choices: Partial<Choices> = {}): Promise<Outcome> =>
  withJudge((judge) => carryProject(projectOf(manifest), { ...CHOICES, ...choices }, judge, check))

const reasons = ({ notCarried }: Outcome) =>
  Object.fromEntries(notCarried.map(({ node, reason }) => [node.name, reason]))
const named = (outcome: Outcome) => outcome.carried.map(({ namespace, name }) => `${namespace}.${name}`)
const file = (product: Carried | undefined, part: string) => parse(product?.texts[part] ?? '')

describe('models of dbt as products', () => {
  it('name what they read: tables of the connection, and products', async () => {
    const { carried: found } = await carried(manifestOf([model('a'), model('b', made('a')), model('c', made('b'))]))
    assert.deepEqual(
      found.map((one) => file(one, 'product').archetype),
      ['source_aligned', 'aggregate', 'consumer_aligned'],
    )
    assert.deepEqual(file(found[0], 'inputs').inputs, [{ name: 'orders', connection: 'db', table: 'shop.orders' }])
    assert.deepEqual(file(found[1], 'inputs').inputs, [{ name: 'a', product: 'marts.a' }])
    assert.equal(file(found[1], 'compute').transform, 'select * from "a"\n')
    assert.equal(file(found[0], 'output').write_mode, 'replace')
    assert.deepEqual(file(found[0], 'serving').endpoints, [{ type: 'analytics' }])
  })

  it('have the keys, classes, owners and tags that the project tells', async () => {
    const columns = {
      id: { ...COLUMNS.id, constraints: [{ type: 'primary_key' }] },
      email: { ...COLUMNS.email, meta: { pii: true } },
    }
    const config = {
      meta: { owner: 'dora@a.test', classification: 'confidential' },
      tags: ['x', 'x'],
      grants: { select: ['team_a', 'u@a.test'] },
    }
    const { carried: found } = await carried(
      manifestOf([model('a', { columns, config, group: 'g' }), model('b', made('a'))]),
    )
    const { owner, tags, classification, access } = file(found[0], 'product')
    assert.deepEqual([owner, tags, classification], [{ team: 'g', email: 'dora@a.test' }, ['x'], 'confidential'])
    assert.deepEqual(access, { teams: ['team_a'], users: ['u@a.test'] })
    const [id, email] = file(found[0], 'output').schema
    assert.deepEqual([id.role, id.nullable, email.classification], ['identity', false, 'pii.identifier'])
    assert.deepEqual(file(found[0], 'serving').endpoints, [{ type: 'lookup' }, { type: 'analytics' }])
    // What is made of it is for no more readers, and shows no more.
    assert.equal(file(found[1], 'product').classification, 'confidential')
    assert.equal(file(found[1], 'output').schema[1].classification, 'pii.identifier')
  })

  it('have the classes that products give to their tables already, whatever the project says, and say so', async () => {
    const source = { ...ORDERS, columns: COLUMNS }
    for (const [said, classes, expected] of [
      [null, ['pii.identifier'], 'pii.identifier'],
      ['pii.email', ['pii.identifier'], 'pii.identifier'],
      ['pii.email', ['pii.contact', 'pii.email'], 'pii.email'],
      ['pii.email', [], 'pii.email'],
      [null, [], undefined],
    ] as const) {
      const columns = { ...COLUMNS, email: { ...COLUMNS.email, meta: said === null ? {} : { classification: said } } }
      const models = [model('a', { columns }), model('b', made('a'))]
      const known = new Map([[knownKey('shop.orders', 'EMAIL'), classes]])
      const { carried: found } = await carried(manifestOf(models, { 'source.orders': source }), { known })
      for (const product of found) {
        const [id, email] = file(product, 'output').schema
        assert.deepEqual([id.classification, email.classification], [undefined, expected], product.name)
        const isTold = product.notes.includes(`email: ${expected}, by which products hide already what it is made of`)
        assert.equal(isTold, classes.length > 0, product.notes.join('\n'))
      }
    }
  })

  it('are left out with what is made of them, and the reason is told', async () => {
    const raw_code = '{% if is_incremental() %} where id > 1000 and email is null {% endif %}'
    const outcome = await carried(
      manifestOf([
        model('py', { language: 'python' }),
        model('of_py', made('py')),
        model('itself', {
          compiled_code: 'select * from w.shop.orders where id > (select max(id) from w.marts.itself)',
        }),
        model('newest', {
          raw_code,
          compiled_code: 'select * from w.shop.orders where id > 1000 and email is null',
          config: { materialized: 'incremental' },
        }),
        model('whole', { raw_code, config: { materialized: 'incremental' } }),
        model('raw', { compiled_code: null }),
        model('odd', { config: { materialized: 'lambda_view' } }),
        model('batch', { config: { materialized: 'incremental', incremental_strategy: 'microbatch' } }),
        model('unknown', { columns: {} }),
        model('broken', { compiled_code: "select 'a from w.shop.orders" }),
        model('ring', made('ring_2')),
        model('ring_2', made('ring')),
        model('whole_dialect', {
          ...made('whole'),
          compiled_code: 'select dateadd(day, 1, id) as id from w.marts.whole',
        }),
        model('nothing', { compiled_code: 'select 1 as id' }),
      ]),
    )
    assert.deepEqual(named(outcome), ['marts.whole'])
    const told = reasons(outcome)
    const expected: Readonly<Record<string, RegExp>> = {
      py: /python/,
      of_py: /reads py, which is not carried/,
      itself: /reads the model itself/,
      newest: /what is new alone/,
      raw: /not compiled/,
      odd: /lambda_view/,
      batch: /microbatch/,
      unknown: /dbt docs generate/,
      broken: /no end/,
      ring: /circle/,
      ring_2: /circle/,
      nothing: /reads nothing/,
      whole_dialect: /engine does not take its SQL: .* function dateadd/,
    }
    assert.deepEqual(Object.keys(told).sort(), Object.keys(expected).sort())
    for (const [name, reason] of Object.entries(expected)) assert.match(told[name] ?? '', reason, name)
    const kept = await carried(manifestOf([model('py', { language: 'python' }), model('of_py', made('py'))]), {
      tables: new Set(['py']),
    })
    assert.deepEqual(file(kept.carried[0], 'inputs').inputs, [{ name: 'py', connection: 'db', table: 'marts.py' }])
  })

  it('are called as the rules of names have it, and none as another', async () => {
    const names = ['stg_a__b', 'stg_a_b', '../../etc/passwd', 'raw_x', '__proto__', 'Größe', '', '\u202e1']
    const nodes = names.map((name, at) => [`model.${at}`, model(name, { schema: 'public' })])
    const outcome = await carried({
      metadata: { dbt_schema_version: 'v12' },
      nodes: Object.fromEntries(nodes),
      sources: { 'source.orders': ORDERS },
    })
    assert.deepEqual(named(outcome), [
      'dbt_public.stg_a_b',
      'dbt_public.stg_a_b_2',
      'dbt_public.etc_passwd',
      'dbt_public.dbt_raw_x',
      'dbt_public.proto',
      'dbt_public.gro_e',
      'dbt_public.dbt_model',
      'dbt_public.dbt_1',
    ])
    assert.deepEqual(
      [
        ...new Set(
          (await carried(manifestOf([model('a')]), { namespace: 'n' })).carried.map(({ namespace }) => namespace),
        ),
      ],
      ['n'],
    )
  })

  it('take nothing of what an object has by itself, and end on any manifest', async () => {
    const hostile = JSON.parse(`{"metadata": {"dbt_schema_version": "v12"}, "nodes": {
      "__proto__": {"resource_type": "model", "name": "constructor", "columns": {"__proto__": {"data_type": "int"}}, "depends_on": {"nodes": ["__proto__", "toString"]}, "config": {"materialized": "table"}, "compiled_code": "select 1"},
      "a": null, "b": 7, "c": [], "d": {"resource_type": {}, "depends_on": "x", "columns": [1], "config": "y"}},
      "sources": {"toString": {"name": 1}}, "groups": [], "macros": {"m": null}, "exposures": {"e": 1}}`)
    const outcome = await carried(hostile)
    assert.deepEqual([outcome.carried, ({} as { polluted?: unknown }).polluted], [[], undefined])
    for (const none of [null, [], {}, { nodes: {} }, 'x']) assert.throws(() => projectOf(none), /no manifest of dbt/)
    assert.deepEqual(
      ['constructor', '__proto__', 'toString'].map((name) => fieldOf({}, name)),
      Array(3).fill(undefined),
    )
    const deep = join(folder, 'deep')
    await mkdir(deep)
    await writeFile(
      join(deep, 'manifest.json'),
      `{"metadata": {"dbt_schema_version": "v12"}, "nodes": ${'{"a":'.repeat(50_000)}1${'}'.repeat(50_000)}}`,
    )
    assert.deepEqual((await carried(manifestOf([]))).carried, [])
    assert.equal((await readProject(deep)).nodes.size, 1)
    await rm(join(deep, 'manifest.json'))
    await symlink('/dev/zero', join(deep, 'manifest.json'))
    await assert.rejects(readProject(deep), /no file/)
  })
})

describe('the folder of products', () => {
  it('is written as a whole into a new one, over nothing', async () => {
    const { carried: products } = await carried(manifestOf([model('a'), model('b', made('a'))]))
    const target = join(folder, 'out')
    await checkFree(target)
    await writeProducts(target, products)
    assert.deepEqual((await readdir(join(target, 'marts'))).sort(), ['a', 'b'])
    await assert.rejects(checkFree(target), /not empty/)
    await assert.rejects(writeProducts(target, products), /ENOTEMPTY|not empty/)
    await symlink(target, join(folder, 'link'))
    await assert.rejects(checkFree(join(folder, 'link')), /no folder/)
    assert.deepEqual(
      (await readdir(folder)).filter((name) => name.includes('.part-')),
      [],
    )
  })
})
