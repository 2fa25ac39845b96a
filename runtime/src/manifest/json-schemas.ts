import type { ServingTypes } from './context.ts'
import { CHECK_KINDS } from './files/quality.ts'
import { FILE_SCHEMAS } from './parse-manifests.ts'
import { MANIFEST_NAMES, type ManifestName } from './problem.ts'

type JsonSchemaDocument = Readonly<Record<string, unknown>>

/**
 * The published JSON Schemas (draft 2020-12) of the six files, for editors: made from what validates, with the
 * configs of the endpoint types that this deployment serves. Plain JSON.
 */
export function manifestSchemas(servingTypes: ServingTypes): Readonly<Record<ManifestName, JsonSchemaDocument>> {
  const entries = MANIFEST_NAMES.map((name) => [name, schemaDocument(name, servingTypes)] as const)
  return Object.fromEntries(entries) as Record<ManifestName, JsonSchemaDocument>
}

function schemaDocument(name: ManifestName, servingTypes: ServingTypes): JsonSchemaDocument {
  const schema = JSON.parse(JSON.stringify(FILE_SCHEMAS[name])) as Record<string, unknown>
  if (name === 'quality') addTo(schema, ['properties', 'checks', 'items'], oneKindOfCheck())
  if (name === 'serving') addTo(schema, ['properties', 'endpoints', 'items'], configByType(servingTypes))
  return { $schema: 'https://json-schema.org/draft/2020-12/schema', $id: `urn:sluice:manifest:${name}:v1`, ...schema }
}

function oneKindOfCheck(): Record<string, unknown> {
  return { oneOf: CHECK_KINDS.map((kind) => ({ required: [kind] })) }
}

function configByType(servingTypes: ServingTypes): Record<string, unknown> {
  const branches = servingTypes.names.map((type) => ({
    if: { properties: { type: { const: type } }, required: ['type'] },
    // biome-ignore lint/suspicious/noThenProperty: the keyword of JSON Schema
    then: {
      properties: { config: servingTypes.get(type)?.configSchema ?? true },
      ...requiredConfig(servingTypes, type),
    },
  }))
  return branches.length === 0 ? {} : { allOf: JSON.parse(JSON.stringify(branches)) }
}

/** A type whose config has required fields cannot do without a config. */
function requiredConfig(servingTypes: ServingTypes, type: string): { readonly required?: readonly string[] } {
  const schema = servingTypes.get(type)?.configSchema
  const required = typeof schema === 'object' && 'required' in schema ? schema.required : []
  return Array.isArray(required) && required.length > 0 ? { required: ['config'] } : {}
}

function addTo(schema: Record<string, unknown>, path: readonly string[], fields: Record<string, unknown>): void {
  Object.assign(nodeAt(schema, path), fields)
}

function nodeAt(schema: Record<string, unknown>, path: readonly string[]): Record<string, unknown> {
  return path.reduce((node, step) => node[step] as Record<string, unknown>, schema)
}
