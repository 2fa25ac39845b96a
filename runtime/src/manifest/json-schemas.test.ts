import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { Compile } from 'typebox/schema'
import { contractServingTypes, EXAMPLES, type ExampleName, exampleFiles } from './examples.ts'
import { manifestSchemas } from './json-schemas.ts'
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
