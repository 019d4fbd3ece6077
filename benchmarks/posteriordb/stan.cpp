// Three functions of a Stan model for ctypes: this text follows that of the model, which stanc writes.
#include <fstream>
#include <iostream>
#include <stan/io/json/json_data.hpp>

extern "C" {

stan::model::model_base *posterior_model(const char *data) {
  try {
    std::ifstream file(data);
    stan::json::json_data context(file);
    return &new_model(context, 0, nullptr);
  } catch (const std::exception &error) {
    std::cerr << error.what() << std::endl;
    return nullptr;
  }
}

int posterior_size(stan::model::model_base *model) { return static_cast<int>(model->num_params_r()); }

// The log density of free numbers, up to a constant, and its gradient; 1 where the model refuses the point.
int posterior_gradient(stan::model::model_base *model, const double *at, double *value, double *gradient) {
  const auto size = static_cast<Eigen::Index>(model->num_params_r());
  try {
    stan::math::nested_rev_autodiff nested;
    Eigen::Matrix<stan::math::var, Eigen::Dynamic, 1> free = Eigen::Map<const Eigen::VectorXd>(at, size);
    stan::math::var density = model->log_prob_propto_jacobian(free, nullptr);
    density.grad();
    *value = density.val();
    for (Eigen::Index i = 0; i < size; ++i) gradient[i] = free[i].adj();
    return 0;
  } catch (const std::exception &) {
    return 1;
  }
}
}
