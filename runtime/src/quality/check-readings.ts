/** Which columns a check looks at: its counts and the rows that it puts aside are as hidden as these. */
import type { SourceColumn } from '@sluice/engine'
import { qualified } from '../manifest/context.ts'
import type { Input, Rule } from '../manifest/manifest-set.ts'
import type { CheckReading } from './check-result.ts'

/** Null for a query: only the engine can say it. */
export function readingOf(rule: Rule, inputs: readonly Input[]): CheckReading | null {
  switch (rule.kind) {
    case 'sql':
      return null
    case 'not_null':
    case 'unique':
      return { output: rule.columns, raw: [] }
    case 'accepted_values':
    case 'range':
    case 'matches':
    case 'freshness':
      return { output: [rule.column], raw: [] }
    case 'references': {
      const input = inputs.find(({ name }) => name === rule.input)
      const raw = input === undefined ? [] : rule.inputColumns.map((column) => rawColumn(input, column))
      return { output: rule.columns, raw }
    }
    case 'anomaly':
      return { output: rule.column === null ? [] : [rule.column], raw: [] }
    case 'row_count':
    case 'schema':
      return { output: [], raw: [] }
  }
}

/** `named` are those of a query over the output, which is called `output` there, and the inputs. */
export function readingOfQuery(named: readonly SourceColumn[], output: string, inputs: readonly Input[]): CheckReading {
  const own = new Set<string>()
  const raw = new Set<string>()
  for (const { table, column } of named) {
    const name = table.at(-1) ?? ''
    const input = inputs.find((candidate) => candidate.name === name)
    if (name === output) own.add(column)
    else if (input !== undefined) raw.add(rawColumn(input, column))
  }
  return { output: [...own], raw: [...raw] }
}

/** How a column of an input's raw table is named among the classes. */
export function rawColumn(input: Pick<Input, 'connection' | 'table'>, column: string): string {
  return JSON.stringify([input.connection, qualified(input.table), column.toLowerCase()])
}
