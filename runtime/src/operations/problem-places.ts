import { SluiceError } from '@sluice/sdk'
import { MANIFEST_NAMES, type Path } from '../manifest/problem.ts'
import { readYaml } from '../manifest/read-yaml.ts'

interface Unplaced {
  readonly manifest: string
  readonly path: string
  readonly message: string
}

/** The error with the line and the column of what its `errors` name by path, as the author's own files have them. */
export function withPlaces(error: unknown, texts: Readonly<Record<string, string>>): unknown {
  if (!(error instanceof SluiceError)) return error
  const { kind, message, code, remedy, details, cause } = error
  const errors = details?.['errors'] as readonly Unplaced[] | undefined
  if (!Array.isArray(errors)) return error
  return new SluiceError(kind, message, {
    code,
    ...(remedy === undefined ? {} : { remedy }),
    details: { ...details, errors: errors.map((one) => placed(one, texts)) },
    cause,
  })
}

function placed(problem: Unplaced, texts: Readonly<Record<string, string>>): unknown {
  const manifest = MANIFEST_NAMES.find((name) => name === problem.manifest)
  const text = manifest === undefined ? undefined : texts[manifest]
  const reading = manifest === undefined || text === undefined ? null : readYaml(manifest, Buffer.from(text))
  return reading?.ok ? { ...problem, ...reading.file.locate(pathOf(problem.path)) } : problem
}

/** `inputs[0].where` → `['inputs', 0, 'where']`. */
function pathOf(text: string): Path {
  return [...text.matchAll(/\[(\d+)\]|[^.[\]]+/g)].map(([step, index]) => (index === undefined ? step : Number(index)))
}
