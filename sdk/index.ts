export * from './errors.ts'
export * from './schema.ts'
