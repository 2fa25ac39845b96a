import { didYouMean } from '../parsing/suggestion.ts'
import { readCompute } from './check-compute.ts'
import { readInputs } from './check-inputs.ts'
import { readOutput } from './check-output.ts'
import { readProduct } from './check-product.ts'
import { readQuality } from './check-quality.ts'
import { readServing } from './check-serving.ts'
import { CheckedFile } from './checked-file.ts'
import type { ManifestContext } from './context.ts'
import { digestOf } from './digest.ts'
import { ComputeFile } from './files/compute.ts'
import { InputsFile } from './files/inputs.ts'
import { OutputFile } from './files/output.ts'
import { ProductFile } from './files/product.ts'
import { QualityFile } from './files/quality.ts'
import { ServingFile } from './files/serving.ts'
import type { ManifestSet, QualityManifest, UsedChecks } from './manifest-set.ts'
import { asWritten } from './open-modes.ts'
import { type Finding, formatPath, MANIFEST_NAMES, type ManifestName, type Problem } from './problem.ts'
import { readYaml, type YamlReading } from './read-yaml.ts'
import type { Schema } from './shape-check.ts'

/** The schema of each file. */
export const FILE_SCHEMAS: Readonly<Record<ManifestName, Schema>> = {
  product: ProductFile,
  inputs: InputsFile,
  output: OutputFile,
  quality: QualityFile,
  serving: ServingFile,
  compute: ComputeFile,
}

export type ManifestFiles = Readonly<Partial<Record<ManifestName, Uint8Array>>>

export type ParsedManifests =
  | {
      readonly ok: true
      readonly manifests: ManifestSet
      readonly problems: readonly []
      readonly warnings: readonly Problem[]
    }
  | {
      readonly ok: false
      readonly problems: readonly Problem[]
      readonly warnings: readonly Problem[]
      /** Checks of other products, as far as quality.yaml could be read: told so that those can be looked up. */
      readonly uses?: readonly UsedChecks[]
    }

/** More than anybody corrects in one go. */
const MOST_PROBLEMS = 200

/**
 * Reads, checks and normalises the six manifests of a product: all problems at once, each with its place, in the
 * order of the files and lines. Pure, and never throws for anything that an author can write.
 */
export function parseManifests(files: ManifestFiles, context: ManifestContext): ParsedManifests {
  const readings = new Map(MANIFEST_NAMES.map((name) => [name, readFile(name, files[name])]))
  const checked = (name: ManifestName): CheckedFile | null => {
    const reading = readings.get(name)
    return reading?.ok ? new CheckedFile(name, FILE_SCHEMAS[name], reading.file.value) : null
  }
  const drafts = draftAll(checked, context)
  const unread = [...readings.values()].flatMap((reading) => (reading.ok ? [] : reading.problems.map(asIs)))
  const located = drafts.findings.map((finding) => locate(finding, readings))
  const problems = shown([...unread, ...located.filter((it) => it.finding?.warning !== true)])
  const warnings = shown(located.filter((it) => it.finding?.warning === true))
  if (problems.length > 0 || drafts.manifests === null) {
    return { ok: false, problems, warnings, ...(drafts.uses === undefined ? {} : { uses: drafts.uses }) }
  }
  return { ok: true, manifests: drafts.manifests, problems: [], warnings }
}

function readFile(name: ManifestName, bytes: Uint8Array | undefined): YamlReading {
  if (bytes !== undefined) return readYaml(name, bytes)
  const message = `${name}.yaml is missing`
  const hint = `Send it as the part "${name}".`
  return { ok: false, problems: [{ manifest: name, line: 1, column: 1, path: '', message, hint }] }
}

interface Drafts {
  readonly manifests: ManifestSet | null
  readonly uses?: QualityManifest['uses']
  readonly findings: readonly Finding[]
}

function draftAll(checked: (name: ManifestName) => CheckedFile | null, context: ManifestContext): Drafts {
  const files = Object.fromEntries(MANIFEST_NAMES.map((name) => [name, checked(name)])) as Record<
    ManifestName,
    CheckedFile | null
  >
  const product = files.product && readProduct(files.product, context)
  const inputs = files.inputs && readInputs(files.inputs, context, product?.value?.archetype ?? null)
  const classes = { product: product?.value?.classification ?? null, sensitive: context.sensitiveClasses ?? [] }
  const output = files.output && readOutput(files.output, classes)
  const columns = output?.columns ?? null
  const quality =
    files.quality &&
    readQuality(files.quality, {
      columns,
      aliases: inputs?.aliases ?? null,
      sharedChecks: context.sharedChecks,
      own: `${context.product.domain}.${context.product.name}`,
      ...(inputs === null ? {} : { inputs }),
    })
  const serving = files.serving && readServing(files.serving, output, context, classes.product)
  const compute =
    files.compute &&
    readCompute(files.compute, {
      inputs,
      output,
      distributed: context.distributed ?? false,
      product: context.product,
      leastScheduleMs: context.leastScheduleMs ?? 1000,
    })
  const findings = [
    ...Object.values(files).flatMap((file) => file?.findings ?? []),
    ...[product, inputs, output, quality, serving, compute].flatMap((draft) => draft?.findings ?? []),
  ]
  if (!product?.value || !inputs || !output || !quality?.value || !serving?.value || !compute?.value) {
    return { manifests: null, findings, uses: quality?.value?.uses }
  }
  const said = {
    product: product.value,
    inputs: inputs.value,
    output: output.value,
    quality: quality.value,
    serving: serving.value,
    compute: compute.value,
  }
  return { manifests: { ...said, digest: digestOf(meaningOf(said)) }, findings, uses: said.quality.uses }
}

/**
 * Without the defaults of choices that came later: manifests deployed before them say the same, by the same digest. Nor is it of
 * the versions that checks of others were taken from: they are what they are.
 */
function meaningOf(said: Omit<ManifestSet, 'digest'>): unknown {
  const { keepMissing, ...output } = said.output
  const { uses, ...quality } = said.quality
  const used = uses === undefined ? {} : { uses: uses.map(({ product, checks }) => ({ product, checks })) }
  const inputs = said.inputs
    .map(asWritten)
    .map(({ deletes, ...input }) => (deletes === 'unseen' ? { ...input, deletes } : input))
  const meant = { ...said, inputs, quality: { ...quality, ...used } }
  return { ...meant, output: keepMissing === true ? { ...output, keepMissing } : output }
}

/** A problem, and the finding that it shows where it is one. */
interface Located {
  readonly problem: Problem
  readonly finding: Finding | null
}

function asIs(problem: Problem): Located {
  return { problem, finding: null }
}

function locate(finding: Finding, readings: ReadonlyMap<ManifestName, YamlReading>): Located {
  const { manifest, message, hint } = finding
  const reading = readings.get(manifest)
  const position = reading?.ok ? reading.file.locate(finding.path, finding.atKey) : { line: 1, column: 1 }
  const problem = { manifest, ...position, path: formatPath(finding.path), message }
  return { problem: hint === undefined ? problem : { ...problem, hint }, finding }
}

/** In the order of files and lines, as many as anybody reads, with what was probably meant. */
function shown(located: readonly Located[]): readonly Problem[] {
  const file = ({ problem }: Located): number => MANIFEST_NAMES.indexOf(problem.manifest)
  const sorted = located.toSorted(
    (a, b) => file(a) - file(b) || a.problem.line - b.problem.line || a.problem.column - b.problem.column,
  )
  const problems = sorted.slice(0, MOST_PROBLEMS).map(withHint)
  const last = problems.at(-1)
  if (last === undefined || sorted.length <= MOST_PROBLEMS) return problems
  const { manifest, line, column } = last
  return [...problems, { manifest, line, column, path: '', message: `and ${sorted.length - MOST_PROBLEMS} more` }]
}

function withHint({ problem, finding }: Located): Problem {
  if (problem.hint !== undefined || finding?.unknown === undefined) return problem
  const hint = didYouMean(finding.unknown.name, finding.unknown.among)
  return hint === undefined ? problem : { ...problem, hint }
}
