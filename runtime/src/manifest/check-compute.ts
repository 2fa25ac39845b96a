import { PRODUCTS } from '../registry/product-sources.ts'
import type { ProductSchedule } from '../registry/schedules.ts'
import type { InputsDraft } from './check-inputs.ts'
import type { OutputDraft } from './check-output.ts'
import type { CheckedFile, Draft } from './checked-file.ts'
import { type ManifestContext, sourceText } from './context.ts'
import { parseDuration, parseMemory } from './durations.ts'
import type { ComputeFile } from './files/compute.ts'
import type { ComputeManifest, Input, OutputColumn } from './manifest-set.ts'
import type { Finding, Path } from './problem.ts'
import { isFault, readSchedule } from './schedule.ts'
import { distributedRefusals } from './schema-contract.ts'

/** The other files that the transform stands between; null where one could not be read. */
export interface TransformContext {
  readonly inputs: InputsDraft | null
  readonly output: OutputDraft | null
  /** Whether an engine outside is configured. */
  readonly distributed: boolean
  readonly product: ManifestContext['product']
  /** Between two runs of a schedule, as the operator has set it. */
  readonly leastScheduleMs: number
}

/** compute.yaml with its defaults. */
export function readCompute(file: CheckedFile, context: TransformContext): Draft<ComputeManifest> {
  const engine = file.get<NonNullable<ComputeFile['engine']>>('engine') ?? 'auto'
  const trigger = file.get<NonNullable<ComputeFile['trigger']>>('trigger') ?? 'on_ingestion'
  const transform = file.get<string>('transform') ?? null
  const resources = file.get<NonNullable<ComputeFile['resources']>>('resources')
  const { schedule, ...scheduled } = scheduleIn(file, trigger, context)
  const findings = [
    ...scheduled.findings,
    ...distributedFindings(engine, resources, context),
    // An unreadable transform is not an absent one.
    ...(file.raw('transform') === undefined ? withoutTransform(context) : []),
    ...appendFindings(file.raw('transform') !== undefined, context),
  ]
  if (trigger === 'schedule' && schedule === null) return { value: null, findings }
  const value: ComputeManifest = {
    engine,
    transform,
    trigger,
    resources: {
      memoryBytes: resources?.memory === undefined ? null : parseMemory(resources.memory),
      threads: resources?.threads ?? null,
      timeoutMs: resources?.timeout === undefined ? null : parseDuration(resources.timeout),
    },
    ...(schedule === null ? {} : { schedule }),
  }
  return { value, findings }
}

/** Memory and threads of an engine outside are its operator's. */
function distributedFindings(
  engine: string,
  resources: ComputeFile['resources'],
  { distributed, inputs }: TransformContext,
): readonly Finding[] {
  if (engine !== 'distributed') return []
  if (inputs?.value.some(({ connection }) => connection === PRODUCTS)) {
    const message = 'products as inputs are read by the embedded engine alone'
    return [{ manifest: 'compute', path: ['engine'], message, hint: 'Write engine: embedded.' }]
  }
  if (!distributed) {
    const message = 'this deployment has no engine outside for transforms'
    return [
      {
        manifest: 'compute',
        path: ['engine'],
        message,
        hint: 'Set compute in the configuration, or use auto or embedded.',
      },
    ]
  }
  const refused = distributedRefusals(inputs?.value ?? []).map((message): Finding => {
    const hint = 'Write evolve, freeze or fail in its schema_contract, or engine: embedded.'
    return { manifest: 'compute', path: ['engine'], message, hint }
  })
  const unused = (['memory', 'threads'] as const)
    .filter((name) => resources?.[name] !== undefined)
    .map((name): Finding => {
      const message = 'is not used by the distributed engine'
      return { manifest: 'compute', path: ['resources', name], message, hint: 'Remove it.', warning: true }
    })
  return [...refused, ...unused]
}

interface ScheduleDraft {
  /** Null where there is none, or none that can be gone by. */
  readonly schedule: ProductSchedule | null
  readonly findings: readonly Finding[]
}

function scheduleIn(file: CheckedFile, trigger: string, { product, leastScheduleMs }: TransformContext): ScheduleDraft {
  const isThere = file.raw('schedule') !== undefined
  const found = (path: Path, message: string, hint?: string, atKey?: true): ScheduleDraft => ({
    schedule: null,
    findings: [
      {
        manifest: 'compute',
        path,
        message,
        ...(hint === undefined ? {} : { hint }),
        ...(atKey === undefined ? {} : { atKey }),
      },
    ],
  })
  if (trigger !== 'schedule') {
    if (!isThere) return { schedule: null, findings: [] }
    const message = `is for trigger: schedule, and the trigger is ${trigger}`
    return found(['schedule'], message, 'Write trigger: schedule, or remove it.', true)
  }
  if (!isThere) {
    const message = 'there is no schedule to go by'
    return found(['trigger'], message, 'Add schedule with one of every, cron, after and max_age.')
  }
  const written = file.get<NonNullable<ComputeFile['schedule']>>('schedule')
  // What does not fit its schema says so itself.
  if (written === undefined) return { schedule: null, findings: [] }
  const read = readSchedule(written, leastScheduleMs)
  if (isFault(read)) return found(read.field === null ? ['schedule'] : ['schedule', read.field], read.message)
  const followed = 'after' in read ? read.after : []
  const own = followed.indexOf(qualifiedName(product))
  if (own !== -1) return found(['schedule', 'after', own], 'is the product itself, which would wait for itself')
  const twice = followed.findIndex((name, at) => followed.indexOf(name) !== at)
  if (twice !== -1) return found(['schedule', 'after', twice], `"${followed[twice]}" stands there twice`)
  return { schedule: read, findings: [] }
}

const qualifiedName = ({ domain, name }: ManifestContext['product']) => `${domain}.${name}`

/**
 * Without a transform the single input is projected, so there must be one, and it must have the columns. Which it has is
 * known of a source that was asked, and of an input that chooses its columns.
 */
function withoutTransform({ inputs, output }: Pick<TransformContext, 'inputs' | 'output'>): readonly Finding[] {
  if (inputs === null) return []
  if (inputs.count > 1) {
    const message = `there are ${inputs.count} inputs, so a transform must say how they become one`
    return [{ manifest: 'compute', path: [], message, hint: 'Add transform: one SELECT over the aliases.' }]
  }
  const input = inputs.value[0]
  if (input === undefined || output === null) return []
  const names = input.columns ?? inputs.sources.get(input.name)?.columns.map((column) => column.name)
  if (names === undefined) return []
  const declared = output.value.columns
  const table = sourceText(input)
  const from = input.columns === null ? table : `the columns that inputs.yaml chooses of ${table}`
  const readable = new Set(names.map((name) => name.toLowerCase()))
  const missing = declared.filter((column) => !readable.has(column.name.toLowerCase()))
  return [
    ...missing.map((column): Finding => {
      const message = `without a transform the column "${column.name}" of output.yaml must come from ${from}, which has none`
      return { manifest: 'compute', path: [], message, unknown: { name: column.name, among: names } }
    }),
    ...(output.columns.complete ? undeclared(input, names, declared, from) : []),
  ]
}

/** Of a wide table, more than anybody reads. */
const MOST_NAMED = 10

/** Columns that nothing takes. What the read itself goes by may be among them. */
function undeclared(
  input: Input,
  names: readonly string[],
  declared: readonly OutputColumn[],
  from: string,
): readonly Finding[] {
  const taken = [...declared.map(({ name }) => name), ...input.primaryKey, input.cursorColumn ?? '']
  const known = new Set(taken.map((name) => name.toLowerCase()))
  const left = names.filter((name) => !known.has(name.toLowerCase()))
  if (left.length === 0) return []
  const more = left.length > MOST_NAMED ? ` and ${left.length - MOST_NAMED} more` : ''
  const listed = `${left.slice(0, MOST_NAMED).join(', ')}${more}`
  const message = `output.yaml does not declare these, so they are left out, of ${from}: ${listed}`
  const hint =
    input.columns === null
      ? 'Add them to the schema, or choose the others by columns in inputs.yaml.'
      : 'Add them to the schema, or take them out of columns in inputs.yaml.'
  return [{ manifest: 'output', path: ['schema'], message, hint, warning: true }]
}

/**
 * Appending rows that have no identity is only right where exactly the new rows of the input pass through one by
 * one. That is certain without a transform and with incremental reading, and is refused elsewhere.
 */
function appendFindings(transforms: boolean, { inputs, output }: TransformContext): readonly Finding[] {
  if (output === null || inputs === null || output.value.writeMode !== 'append') return []
  if (output.value.primaryKey.length > 0 || !output.columns.complete) return []
  const at = { manifest: 'output', path: ['write_mode'] } as const
  if (transforms) {
    const message = 'append without identity columns and with a transform could repeat or miss rows'
    return [{ ...at, message, hint: 'Give the key columns the role identity, or use replace.' }]
  }
  return inputs.value
    .filter((input) => input.mode !== 'incremental')
    .map((input) => ({
      ...at,
      message: `append without identity columns needs the input "${input.name}" in mode incremental`,
      hint: 'Set mode: incremental and a cursor_column in inputs.yaml, or use replace.',
    }))
}
