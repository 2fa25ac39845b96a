export const DIFFERENCES: readonly { readonly how: string; readonly of: readonly string[] }[] = []
