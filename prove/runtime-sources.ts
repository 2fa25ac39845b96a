/** Globs of what runs when a runtime does: what is proved of one is of these sources. */
export const RUNTIME_SOURCES = [
  'runtime/**/*.{ts,js,yaml,json}',
  'sdk/**/*.ts',
  'engine/**/*.{ts,json}',
  'iceberg/**/*.{ts,json}',
  'plugins/**/*.ts',
  'package-lock.json',
] as const
