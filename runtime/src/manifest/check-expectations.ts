/** What quality.yaml says of inputs that are products, and of what others may expect of this one. */

import { PRODUCTS } from '../registry/product-sources.ts'
import type { InputsDraft } from './check-inputs.ts'
import { type CheckedFile, repeated } from './checked-file.ts'
import { Columns } from './columns.ts'
import { sourceText } from './context.ts'
import type { CheckFields, ExpectationFields } from './files/quality.ts'
import type { Check, DownstreamExpectations, Expectation, Input, QualityManifest } from './manifest-set.ts'
import type { Finding, Path } from './problem.ts'

/** Before the names under which results of expectations are kept, beside the checks of the product that they are of. */
export const EXPECTED = 'expected by '

interface ExpectationContext {
  readonly aliases: ReadonlySet<string> | null
  readonly inputs?: Pick<InputsDraft, 'value' | 'sources'>
}

/**
 * @param checkOf what such fields say of rows with these columns (null: they are not known), and tells what is wrong with it; null
 * where it is no check
 */
export function expectationsOf(
  file: CheckedFile,
  { aliases, inputs }: ExpectationContext,
  checkOf: (path: Path, fields: CheckFields, columns: Columns | null) => Check | null,
): {
  readonly value: Pick<QualityManifest, 'expectations' | 'downstreamExpectations'>
  readonly findings: readonly Finding[]
} {
  const items = file.items<ExpectationFields>('expectations')
  const findings: Finding[] = repeated(items, ({ name }) => name).map(({ path, value }) => ({
    manifest: 'quality',
    path: [...path, 'name'],
    message: `the expectation "${value.name}" stands here twice`,
  }))
  const expectations: Expectation[] = []
  for (const { path, value } of items) {
    const { on, schema, ...fields } = value
    const input = inputs?.value.find(({ name }) => name === on)
    if (aliases !== null && !aliases.has(on)) {
      const message = `inputs.yaml has no input "${on}"`
      findings.push({ manifest: 'quality', path: [...path, 'on'], message, unknown: { name: on, among: aliases } })
    } else if (input !== undefined && input.connection !== PRODUCTS) {
      findings.push({
        manifest: 'quality',
        path: [...path, 'on'],
        message: `"${on}" is a table, and nobody publishes its rows: expectations are of inputs that are products`,
        hint: 'Check the rows of this product under checks.',
      })
    }
    const columns = input === undefined ? null : columnsOf(input, inputs?.sources.get(on))
    const check = checkOf(path, { ...fields, ...(schema === undefined ? {} : { schema }) }, columns)
    if (check !== null) expectations.push({ ...check, on })
  }
  const policy = file.get<DownstreamExpectations>('downstream_expectations')
  return {
    value: {
      ...(expectations.length === 0 ? {} : { expectations }),
      ...(policy === undefined || policy === 'warn' ? {} : { downstreamExpectations: policy }),
    },
    findings,
  }
}

/** Of the columns that are read; null where it is not known which the product has. */
function columnsOf(input: Input, source: ReturnType<InputsDraft['sources']['get']>): Columns | null {
  if (source === undefined) return null
  const read = source.columns.filter(({ name }) => input.columns?.includes(name) ?? true)
  return Columns.ofInput(read, sourceText(input))
}
