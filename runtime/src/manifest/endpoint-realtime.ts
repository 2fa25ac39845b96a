import type { OutputDraft } from './check-output.ts'
import type { RealtimeFields } from './files/serving.ts'
import { isSensitive } from './manifest-set.ts'
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

export type TemplatePart = { readonly text: string } | { readonly column: string }

/** `user:{id}` → text and columns in turn; null where braces do not match. */
export function parseKeyTemplate(template: string): readonly TemplatePart[] | null {
  const parts: TemplatePart[] = []
  const rest = template.replace(/([^{}]+)|\{([^{}]+)\}/g, (_, text: string | undefined, column: string | undefined) => {
    if (text !== undefined) parts.push({ text })
    else if (column !== undefined) parts.push({ column })
    return ''
  })
  return rest === '' ? parts : null
}

function templateFindings(template: string, output: OutputDraft, path: Path): readonly Finding[] {
  const at = { manifest: 'serving', path } as const
  const parts = parseKeyTemplate(template)
  if (parts === null) {
    return [{ ...at, message: 'the braces do not match', hint: 'Write columns as {column_name}.' }]
  }
  const columns = parts.flatMap((part) => ('column' in part ? [part.column] : []))
  if (columns.length === 0) {
    const message = 'the template names no column, so every row would have the same key'
    return [{ ...at, message, hint: 'Add a placeholder: {column_name}.' }]
  }
  return [
    ...columns.flatMap((name) => placeholderFindings(name, output, path)),
    ...(runsTogether(parts) ? [adjacent(path)] : []),
    ...notUnique(columns, output, path),
  ]
}

function placeholderFindings(name: string, output: OutputDraft, path: Path): readonly Finding[] {
  const at = { manifest: 'serving', path } as const
  const column = output.columns.get(name)
  if (column === undefined) return output.columns.missing('serving', path, name)
  if (['json', 'binary', 'float', 'double'].includes(column.type)) {
    return [{ ...at, message: `"${name}" is of type ${column.type}, which cannot be part of a key` }]
  }
  if (!isSensitive(column.classification)) return []
  const message = `"${name}" is classified ${column.classification}: readers who see it masked cannot read by this key`
  return [{ ...at, message, warning: true }]
}

/** Without anything between them, ("1", "23") and ("12", "3") would be one key. */
function runsTogether(parts: readonly TemplatePart[]): boolean {
  return parts.some((part, index) => 'column' in part && index > 0 && 'column' in (parts[index - 1] ?? { text: '' }))
}

function adjacent(path: Path): Finding {
  const message = 'two columns stand next to each other, so different rows could have the same key'
  return { manifest: 'serving', path, message, hint: 'Put a character such as ":" between them.' }
}

function notUnique(columns: readonly string[], output: OutputDraft, path: Path): readonly Finding[] {
  const key = output.value.primaryKey
  if (key.length > 0 && key.every((name) => columns.includes(name))) return []
  const message = 'the template does not hold the whole primary key: of several rows with one key, one is served'
  return output.columns.complete ? [{ manifest: 'serving', path, message, warning: true }] : []
}
