import { isSluiceError, SluiceError } from '@sluice/sdk'
import type { ManifestParsing } from '../../manifest/parsing.ts'
import { MANIFEST_NAMES, type Path } from '../../manifest/problem.ts'

export interface Unplaced {
  readonly manifest: string
  readonly path: string
  readonly message: string
}

/** The error with the line and the column of what its `errors` name by path, as the author's own files have them. */
export async function withPlaces(
  parsing: ManifestParsing,
  tenant: string,
  error: unknown,
  texts: Readonly<Record<string, string>>,
): Promise<unknown> {
  if (!isSluiceError(error)) return error
  const { kind, message, code, remedy, details, cause } = error
  const errors = details?.['errors'] as readonly Unplaced[] | undefined
  if (!Array.isArray(errors)) return error
  return new SluiceError(kind, message, {
    code,
    ...(remedy === undefined ? {} : { remedy }),
    details: { ...details, errors: await placed(parsing, tenant, errors, texts) },
    cause,
  })
}

export async function placed(
  parsing: ManifestParsing,
  tenant: string,
  problems: readonly Unplaced[],
  texts: Readonly<Record<string, string>>,
): Promise<readonly unknown[]> {
  const found = problems.flatMap((problem) => {
    const manifest = MANIFEST_NAMES.find((name) => name === problem.manifest)
    return manifest === undefined ? [] : [{ problem, place: { manifest, path: pathOf(problem.path) } }]
  })
  const positions = await parsing.locate(
    tenant,
    texts,
    found.map(({ place }) => place),
  )
  const byProblem = new Map(found.map(({ problem }, at) => [problem, positions[at]]))
  return problems.map((problem) => ({ ...problem, ...byProblem.get(problem) }))
}

/** `inputs[0].where` → `['inputs', 0, 'where']`. */
function pathOf(text: string): Path {
  return [...text.matchAll(/\[(\d+)\]|[^.[\]]+/g)].map(([step, index]) => (index === undefined ? step : Number(index)))
}
