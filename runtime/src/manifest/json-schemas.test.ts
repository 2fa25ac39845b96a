import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { Compile } from 'typebox/schema'
import { contractServingTypes, EXAMPLES, type ExampleName, exampleContext, exampleFiles } from './examples.ts'
import { manifestSchemas } from './json-schemas.ts'
import { parseManifests } from './parse-manifests.ts'
import { MANIFEST_NAMES, type ManifestName } from './problem.ts'
import { readYaml } from './read-yaml.ts'

const SCHEMAS = manifestSchemas(contractServingTypes())

function accepts(name: ManifestName, value: unknown): boolean {
  return Compile(SCHEMAS[name]).Check(value)
}

describe('manifestSchemas', () => {
  it('are JSON, each with the draft and a name of its own', () => {
    assert.deepEqual(JSON.parse(JSON.stringify(SCHEMAS)), SCHEMAS)
    for (const name of MANIFEST_NAMES) {
      assert.equal(SCHEMAS[name].$schema, 'https://json-schema.org/draft/2020-12/schema')
      assert.equal(SCHEMAS[name].$id, `urn:sluice:manifest:${name}:v1`)
    }
  })

  it('accept the examples', async () => {
    for (const example of Object.keys(EXAMPLES) as ExampleName[]) {
      for (const [name, bytes] of Object.entries(await exampleFiles(example)) as [ManifestName, Uint8Array][]) {
        const reading = readYaml(name, bytes)
        assert.ok(reading.ok && accepts(name, reading.file.value), `${example}/${name}`)
      }
    }
  })

  it('offer nothing that is refused because it is not built', async () => {
    assert.deepEqual(await refusedOffers(SCHEMAS), [])
  })

  it('know the config of each endpoint type', () => {
    const serving = (...endpoints: readonly object[]) => ({ apiVersion: 'svc/v1', kind: 'Serving', endpoints })
    assert.equal(accepts('serving', serving({ type: 'realtime', config: { key_template: '{a}', ttl: '1h' } })), true)
    assert.equal(accepts('serving', serving({ type: 'realtime', config: { key_template: '{a}', ttl: '1w' } })), false)
    assert.equal(accepts('serving', serving({ type: 'realtime' })), false)
    assert.equal(accepts('serving', serving({ type: 'lookup', config: { key_template: '{a}' } })), false)
    assert.equal(accepts('serving', serving({ type: 'lookup' })), true)
  })

  it('ask for one kind of check', () => {
    const quality = (check: object) => ({ apiVersion: 'svc/v1', kind: 'Quality', checks: [{ name: 'c', ...check }] })
    assert.equal(accepts('quality', quality({ not_null: 'a' })), true)
    assert.equal(accepts('quality', quality({})), false)
    assert.equal(accepts('quality', quality({ not_null: 'a', unique: 'a' })), false)
  })
})

interface Schema {
  readonly type?: string
  readonly enum?: readonly unknown[]
  readonly properties?: Readonly<Record<string, Schema>>
  readonly required?: readonly string[]
  readonly items?: Schema
}

interface Offer {
  readonly path: readonly (string | number)[]
  readonly value: unknown
}

/** Each field that a schema offers, with one value, or with all where they are listed. */
function offersOf(schema: Schema, path: Offer['path'] = []): readonly Offer[] {
  if (schema.items !== undefined) return offersOf(schema.items, [...path, 0])
  return Object.entries(schema.properties ?? {}).flatMap(([name, field]) => {
    const at = [...path, name]
    return [...(field.enum ?? [sample(field)]).map((value) => ({ path: at, value })), ...offersOf(field, at)]
  })
}

function sample(schema: Schema): unknown {
  if (schema.enum !== undefined) return schema.enum[0]
  if (schema.type === 'object') {
    return Object.fromEntries((schema.required ?? []).map((name) => [name, sample(schema.properties?.[name] ?? {})]))
  }
  if (schema.type === 'array') return [sample(schema.items ?? {})]
  return schema.type === 'string' ? 'a.b' : schema.type === 'boolean' ? true : 1
}

/** What the schemas offer and validation refuses as not built, each put into an example by itself. */
async function refusedOffers(schemas: typeof SCHEMAS): Promise<readonly string[]> {
  const refused: string[] = []
  const files = await exampleFiles('customers')
  for (const name of MANIFEST_NAMES) {
    for (const { path, value } of offersOf(schemas[name] as Schema)) {
      const reading = readYaml(name, files[name])
      assert.ok(reading.ok)
      const changed = put(JSON.parse(JSON.stringify(reading.file.value)), path, value)
      const parsed = await parseManifests(
        { ...files, [name]: Buffer.from(JSON.stringify(changed)) },
        exampleContext('customers'),
      )
      const problems = parsed.ok ? [] : parsed.problems
      if (problems.some(({ message }) => message.includes('not built')))
        refused.push(`${path.join('.')}: ${JSON.stringify(value)}`)
    }
  }
  return refused
}

function put(whole: unknown, path: Offer['path'], value: unknown): unknown {
  const [step, ...rest] = path
  if (step === undefined) return value
  const node = (whole ?? (typeof step === 'number' ? [] : {})) as Record<string | number, unknown>
  node[step] = put(node[step], rest, value)
  return node
}
