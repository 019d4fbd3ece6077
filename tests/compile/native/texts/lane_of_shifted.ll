define double @f(ptr %a, ptr %b) {
  %y = load <8 x double>, ptr %a, align 8
  %x = load <8 x double>, ptr %b, align 8
  %s = shufflevector <8 x double> %x, <8 x double> %y, <8 x i32> <i32 4, i32 5, i32 6, i32 7, i32 8, i32 9, i32 10, i32 11>
  %e3 = extractelement <8 x double> %y, i64 3
  %j = insertelement <8 x double> poison, double %e3, i64 0
  %e = extractelement <8 x double> %s, i64 5
  %i = insertelement <8 x double> poison, double %e, i64 0
  %w = shufflevector <8 x double> %i, <8 x double> poison, <8 x i32> zeroinitializer
  %u = fadd <8 x double> %y, %s
  %d = fadd <8 x double> %j, %w
  %m = fmul <8 x double> %d, splat (double 3.0)
  %r = extractelement <8 x double> %m, i64 0
  %r2 = extractelement <8 x double> %d, i64 0
  %q = extractelement <8 x double> %u, i64 6
  %z = fadd double %q, %r2
  %z2 = fadd double %r, %z
  ret double %z2
}
