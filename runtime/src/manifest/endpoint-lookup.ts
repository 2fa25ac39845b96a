import type { OutputDraft } from './check-output.ts'
import type { LookupFields } from './files/serving.ts'
import type { Finding, JsonObject, Path } from './problem.ts'

/** lookup: point reads by primary key. The config has met its schema. */
export function lookupDefaults(config: JsonObject, output: OutputDraft): JsonObject {
  const filled = { index_columns: output.value.primaryKey, history_mode: 'current', tracked_columns: [], ...config }
  // Without a history nothing is tracked, and a store is not told of it.
  return filled.history_mode === 'current' ? { ...filled, tracked_columns: [] } : filled
}

export function checkLookup(config: JsonObject, output: OutputDraft, path: Path): readonly Finding[] {
  const fields = config as LookupFields
  return [
    ...keyFindings(output, path),
    ...indexFindings(fields.index_columns ?? [], output, [...path, 'index_columns']),
    ...historyFindings(fields, output, path),
  ]
}

function keyFindings(output: OutputDraft, path: Path): readonly Finding[] {
  if (output.value.primaryKey.length > 0 || !output.columns.complete) return []
  const message = 'lookup reads by primary key, and output.yaml has no identity columns'
  const hint = 'Give the key columns the role identity in output.yaml.'
  return [{ manifest: 'serving', path: path.slice(0, -1), message, hint }]
}

function indexFindings(names: readonly string[], output: OutputDraft, path: Path): readonly Finding[] {
  return names.flatMap((name, index): readonly Finding[] => {
    const at = [...path, index]
    const column = output.columns.get(name)
    if (column === undefined) return output.columns.missing('serving', at, name)
    if (column.type === 'json') {
      return [{ manifest: 'serving', path: at, message: `"${name}" is of type json, which cannot be indexed` }]
    }
    if (!output.isSensitive(column)) return []
    const message = `"${name}" is classified ${column.classification}: readers who see it masked cannot filter by it`
    return [{ manifest: 'serving', path: at, message, warning: true }]
  })
}

/** Columns that a history adds to the table. */
function addedColumns(mode: string, tracked: readonly string[]): readonly string[] {
  if (mode === 'type_2') return ['valid_from', 'valid_to', 'is_current']
  return mode === 'type_3' ? tracked.map((name) => `previous_${name}`) : []
}

function historyFindings(fields: LookupFields, output: OutputDraft, path: Path): readonly Finding[] {
  const mode = fields.history_mode ?? 'current'
  const tracked = fields.tracked_columns ?? []
  const at = [...path, 'tracked_columns']
  if (mode === 'current') {
    if (tracked.length === 0) return []
    const message = 'tracked_columns have no effect with history_mode current'
    return [{ manifest: 'serving', path: at, message, hint: 'Set history_mode to type_2 or type_3.', warning: true }]
  }
  if (tracked.length === 0) {
    const message = `history_mode ${mode} needs tracked_columns`
    return [{ manifest: 'serving', path: at, message, hint: 'Name the columns whose changes make a new record.' }]
  }
  const added = addedColumns(mode, tracked)
  const clashes = added.filter((name) => output.columns.get(name) !== undefined)
  return [
    ...output.columns.missingOf('serving', at, tracked),
    ...tracked.flatMap((name, index) => keyTracked(name, output, [...at, index])),
    ...clashes.map((name): Finding => {
      const message = `history_mode ${mode} adds a column "${name}", which output.yaml has already`
      return {
        manifest: 'serving',
        path: [...path, 'history_mode'],
        message,
        hint: 'Rename the column in output.yaml.',
      }
    }),
  ]
}

function keyTracked(name: string, output: OutputDraft, path: Path): readonly Finding[] {
  if (!output.value.primaryKey.includes(name)) return []
  return [
    { manifest: 'serving', path, message: `"${name}" identifies the row, so it never changes`, hint: 'Remove it.' },
  ]
}
