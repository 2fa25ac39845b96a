/** Manifests that no version can be made of, each by one mistake in those of a version that could. */
import type { Random } from '../../conformance-tests/random.ts'
import type { Files, Version } from './version.ts'

type Mistake = (files: Files, version: Version) => Files

const MISTAKES: Readonly<Record<string, Mistake>> = {
  'a key that there is not': (files) => ({ ...files, output: `${files.output}colums: []\n` }),
  'a column twice': (files) => ({
    ...files,
    output: files.output.replace(
      'schema:\n',
      'schema:\n  - { name: grp, type: string }\n  - { name: grp, type: string }\n',
    ),
  }),
  'an index on nothing': (files) => ({
    ...files,
    serving:
      'apiVersion: svc/v1\nkind: Serving\nendpoints:\n  - { type: lookup, config: { index_columns: [nothing] } }\n',
  }),
  'a history of nothing': (files) => ({
    ...files,
    serving: 'apiVersion: svc/v1\nkind: Serving\nendpoints:\n  - { type: lookup, config: { history_mode: type_2 } }\n',
  }),
  'a condition that is none': (files) => ({
    ...files,
    inputs: files.inputs.replace(/mode: full.*/, 'mode: full, where: "id >>" }'),
  }),
  'a transform of what is not there': (files) => ({
    ...files,
    compute: `${files.compute.replace(/transform:.*\n/, '')}transform: "SELECT nothing AS id FROM source"\n`,
  }),
  'a check of nothing': (files) => ({
    ...files,
    quality: 'apiVersion: svc/v1\nkind: Quality\nchecks:\n  - { name: none, not_null: [nothing] }\n',
  }),
  'text that is no YAML': (files) => ({ ...files, serving: 'endpoints: [' }),
}

export function spoiled(
  random: Random,
  files: Files,
  version: Version,
): { readonly mistake: string; readonly files: Files } {
  const mistake = random.pick(Object.keys(MISTAKES))
  return { mistake, files: (MISTAKES[mistake] as Mistake)(files, version) }
}
