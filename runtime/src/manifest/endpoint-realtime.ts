import { canStandInKey, parseKeyTemplate } from '@sluice/sdk'
import type { OutputDraft } from './check-output.ts'
import type { RealtimeFields } from './files/serving.ts'
import type { Finding, JsonObject, Path } from './problem.ts'

/** realtime: one value under a key made of columns. The config has met its schema. */
export function realtimeDefaults(config: JsonObject, output: OutputDraft): JsonObject {
  return { ttl: '24h', include_columns: output.value.columns.map((column) => column.name), ...config }
}

export function checkRealtime(config: JsonObject, output: OutputDraft, path: Path): readonly Finding[] {
  const fields = config as RealtimeFields
  return [
    ...templateFindings(fields.key_template, output, [...path, 'key_template']),
    ...output.columns.missingOf('serving', [...path, 'include_columns'], fields.include_columns ?? []),
  ]
}

function templateFindings(text: string, output: OutputDraft, path: Path): readonly Finding[] {
  const template = parseKeyTemplate(text)
  if ('problem' in template) {
    const message = `this is no key template: ${template.problem}`
    return [{ manifest: 'serving', path, message, hint: 'Write columns as {column_name}: customer:{customer_id}.' }]
  }
  const columns = template.parts.map((part) => part.column)
  return [...columns.flatMap((name) => placeholderFindings(name, output, path)), ...notUnique(columns, output, path)]
}

function placeholderFindings(name: string, output: OutputDraft, path: Path): readonly Finding[] {
  const at = { manifest: 'serving', path } as const
  const column = output.columns.get(name)
  if (column === undefined) return output.columns.missing('serving', path, name)
  if (!canStandInKey(column.type)) {
    return [{ ...at, message: `"${name}" is of type ${column.type}, which cannot be part of a key` }]
  }
  if (!output.isSensitive(column)) return []
  const message = `"${name}" is classified ${column.classification}: readers who see it masked cannot read by this key`
  return [{ ...at, message, warning: true }]
}

function notUnique(columns: readonly string[], output: OutputDraft, path: Path): readonly Finding[] {
  const key = output.value.primaryKey
  if (key.length > 0 && key.every((name) => columns.includes(name))) return []
  const message = 'the template does not hold the whole primary key: of several rows with one key, one is served'
  return output.columns.complete ? [{ manifest: 'serving', path, message, warning: true }] : []
}
